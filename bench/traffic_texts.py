"""The texts behind ``bench/traffic.py``. Data only: questions, coding tasks, pages with a question
about each, and texts to repeat with a change."""

SHORT = (
    "What is the capital of Norway?",
    "How many minutes are there in a day?",
    "Which gas do plants take from the air?",
    "Who wrote Hamlet?",
)

LONG = (
    "Explain step by step how a rainbow forms, and why its colours are always in the same order.",
    "Describe how a letter travels from a mailbox in one country to a house in another.",
    "Tell the story of a lighthouse keeper who finds a message in a bottle, from morning to night.",
)

CODE = (
    "Write a Python function that checks whether a number is prime, and explain how it works.",
    "Write a Python class for a queue with push, pop and peek, with type annotations and docstrings.",
    "Write a Python function that reads a CSV file and returns the mean of each numeric column as a dict.",
)

_DATABASE = """Answer from this page of an operations manual.

Indexes. An index is a second, sorted copy of some columns with a pointer to each row. The planner uses it when a
condition selects few rows: it walks the tree in a handful of steps instead of reading the whole table. Each index
has a price. Every insert, every delete and every update of an indexed column must change the index too, and the
pages of the index compete with the pages of the table for memory. A table with ten indexes takes about six times
as long to load as the same table with one.

Order of columns. An index over (customer, day) serves conditions on customer, and on customer and day together. It
does not serve a condition on day alone, because days are sorted only inside each customer. Put the column that is
compared for equality first and the column that is compared as a range last.

Statistics. The planner estimates how many rows a condition selects from a sample that is taken by the nightly
ANALYZE job. After a bulk load the sample is stale until that job has run, and the planner may choose a full scan
although an index exists, or the other way round. Run ANALYZE by hand after each load of more than a tenth of a
table. If a plan is still wrong, raise the statistics target of the column from 100 to 500 and run ANALYZE again.

Maintenance. Deleted rows leave holes. When more than a third of an index is holes, rebuild it with REINDEX
CONCURRENTLY, which takes no lock that blocks writers but needs twice the disk space while it runs.

Question: a report that filters by day became slow after last night's bulk load. What should be checked, and in
which order?"""

_CLINIC = """Answer from this page of a clinic's guideline.

Anticoagulants before procedures. Patients who take warfarin stop it five days before a procedure with a high risk
of bleeding. Two days before the procedure the INR is measured; if it is above 1.5, vitamin K, 1 to 2 mg, is given
by mouth and the INR is measured again on the next day. Patients with a mechanical mitral valve, or with a
thrombosis within the last three months, receive low molecular weight heparin from the third day before the
procedure; the last dose is given 24 hours before it. All others receive no heparin.

Patients who take a direct oral anticoagulant stop it one day before a procedure with a low risk of bleeding and two
days before one with a high risk. When the creatinine clearance is below 50 ml per minute and the drug is
dabigatran, these times are doubled. No blood test is needed and no heparin is given.

Restarting. Warfarin is started again on the evening of the procedure in the usual dose. A direct oral anticoagulant
is started again after 24 hours when the risk of bleeding was low and after 48 to 72 hours when it was high. The
surgeon decides; the decision and its reason are written into the chart.

Emergencies. When a procedure cannot wait, the haematologist on call is asked. Prothrombin complex concentrate is
given for warfarin, idarucizumab for dabigatran. For the other drugs the concentrate is used as well, in a dose of
50 units per kilogram.

Question: a patient takes dabigatran, has a creatinine clearance of 40 ml per minute, and needs a procedure with a
high risk of bleeding. When is the drug stopped, and when is it started again?"""

_LEASE = """Answer from this part of a lease.

Section 4, rent. The rent is due on the first working day of each month. A payment that arrives after the fifth
working day carries a late charge of two percent of the monthly rent. The charge falls due with the next rent. No
late charge is owed when the landlord's bank caused the delay.

Section 5, repairs. The landlord keeps the structure, the roof, the pipes and the heating in order. The tenant
reports defects in writing without delay, and pays for damage that grows because a report came late. The tenant
carries small repairs of up to 90 euros each, together no more than six percent of the yearly rent without heating
costs. When the landlord does not begin a repair within fourteen days of the report, the tenant may have it done and
deduct the cost from the rent, provided that two offers were obtained and the cheaper one was taken. In urgent
cases, such as a heating that fails between October and April, the period is two days and one offer is enough.

Section 6, access. The landlord may enter after announcing it three days ahead, on working days between nine and
six, to read meters, to prepare repairs or to show the rooms to buyers. In an emergency no announcement is needed,
but the tenant is told afterwards what was done and why.

Section 7, notice. Either side may end the lease with three months' notice to the end of a month. After five years
the landlord's period grows to six months, after eight years to nine. Notice must be given in writing and signed by
hand; electronic mail is not enough.

Question: the heating failed in January, was reported in writing on a Monday, and nothing has happened by Thursday.
What may the tenant do, and under which conditions?"""

DOMAIN = (_DATABASE, _CLINIC, _LEASE)

_EDIT_CODE = """Rewrite this Python code with the variable total renamed to amount. Change nothing else.

```python
def invoice(lines, discount, tax):
    total = 0.0
    for line in lines:
        total = total + line.price * line.quantity
    if total > 100.0:
        total = total - total * discount
    total = total + total * tax
    return round(total, 2)
```"""

_EDIT_TEXT = """Copy this text word by word, but write "lake" instead of "sea".

The old harbour lies at the end of a narrow road between two hills. Every morning the fishermen push their boats into
the sea before the sun is up, and every evening they come back with nets full of fish. In winter the sea is rough, and
the boats stay on the beach. Then the men repair their nets and paint the boats, and the children collect wood that the
sea has washed onto the sand."""

_SUMMARY = """Summarize this passage by quoting its most important sentences.

A heat pump takes heat from the outside air and brings it into the house. It needs electricity for its compressor, but
for each unit of electricity it delivers three to four units of heat. The colder the air outside, the more electricity
it needs. A house with good insulation and large radiators suits it best, because the water in the radiators can then
be kept at a low temperature. In summer the same machine can cool the house."""

COPY = (_EDIT_CODE, _EDIT_TEXT, _SUMMARY)
