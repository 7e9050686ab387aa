"""Hypothesis profiles and a headless matplotlib for every test.

Profile: HYPOTHESIS_PROFILE=dev|ci|nightly; without it `ci` where CI is set, else `dev`.
"""

import os

from hypothesis import HealthCheck, settings

os.environ["MPLBACKEND"] = "Agg"  # before anything imports matplotlib; command-line tests inherit it

# No deadline anywhere: first calls import sympy and scipy. Machines that share cores draw slowly, which is no failure.
settings.register_profile("dev", deadline=None)
settings.register_profile(
    "ci",
    deadline=None,
    max_examples=40,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "nightly",
    deadline=None,
    max_examples=1000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))
