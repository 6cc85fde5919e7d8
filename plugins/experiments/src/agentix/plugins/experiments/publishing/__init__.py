"""What of a run may leave this machine: without which secrets, in which tree, and the last look at it."""

from agentix.plugins.experiments.publishing.assembling import Assembled, Assembly, Restage, withheld_records
from agentix.plugins.experiments.publishing.cleaning import Cleaner
from agentix.plugins.experiments.publishing.places import NotPublished
from agentix.plugins.experiments.publishing.secrets import learn, looks_secret
from agentix.plugins.experiments.publishing.shipments import Shipment, look_over, look_up, nearest
from agentix.plugins.experiments.publishing.staging import STAGING, Staging
from agentix.plugins.experiments.publishing.views import view_of_trial
from agentix.plugins.experiments.publishing.withheld import NO_KEY, Withheld, redaction_failed, why_not

__all__ = [
    "NO_KEY",
    "STAGING",
    "Assembled",
    "Assembly",
    "Cleaner",
    "NotPublished",
    "Restage",
    "Shipment",
    "Staging",
    "Withheld",
    "learn",
    "look_over",
    "look_up",
    "looks_secret",
    "nearest",
    "redaction_failed",
    "view_of_trial",
    "why_not",
    "withheld_records",
]
