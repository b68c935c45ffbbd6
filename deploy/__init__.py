"""What runs Outrider elsewhere: containers, dashboards, alerts."""
