"""Which tenant a call is of, and what that one may have. It does not know who is running what: ``door.py`` does."""

from collections.abc import Mapping

from orchestrator.api_keys import digest_in
from orchestrator.limits import Limits
from orchestrator.tenants_file import read_tenants
from outrider.errors import InvalidArgument, Unauthenticated
from outrider.wire import check_tenant


class Tenants:
    """The tenants that a file names, and all others. Without ``keys`` (digest to tenant) calls are believed."""

    def __init__(self, limits: Limits, own: Mapping[str, Limits], keys: Mapping[str, str] | None) -> None:
        self._limits = limits
        self._own = own
        self._keys = keys

    @classmethod
    def load(cls, path: str) -> "Tenants":
        """From a file. Raises ConfigError that names file, table and key."""
        file = read_tenants(path)
        return cls(file.limits, file.own, file.keys)

    @classmethod
    def none(cls) -> "Tenants":
        """No keys are needed and nothing is limited."""
        return cls(Limits(), {}, None)

    @property
    def open(self) -> bool:
        """Whether calls need no key."""
        return self._keys is None

    def tenant_of(self, authorization: str, claimed: str) -> str:
        """The tenant of a call with this ``authorization`` (empty for none) and this ``tenant`` in its request.

        Raises Unauthenticated when keys are needed and it has none that is known, and InvalidArgument for a tenant
        that is not the key's.
        """
        if self._keys is None:
            return check_tenant(claimed)
        tenant = self._tenant_with(self._keys, authorization)
        if claimed not in ("", tenant):
            raise InvalidArgument("tenant", f"must be empty or {tenant!r}, whose API key this is")
        return tenant

    @staticmethod
    def _tenant_with(keys: Mapping[str, str], authorization: str) -> str:
        digest = digest_in(authorization)
        if digest is None:
            raise Unauthenticated("the call needs the metadata authorization with the value 'Bearer <API key>'")
        if digest not in keys:
            raise Unauthenticated("the API key in the metadata authorization is not known here")
        return keys[digest]

    def limits_of(self, tenant: str) -> Limits:
        """What a tenant may have."""
        return self._own.get(tenant, self._limits)
