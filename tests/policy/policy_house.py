"""The earlier name of `policy_setup`."""

from policy_setup import call as call
from policy_setup import gate as gate
