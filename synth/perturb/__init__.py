"""Perturbation: named profiles of steps that turn a clean page into a scan, a copy, a photograph; boxes follow every step."""

from certloop.synth.perturb.profiles import STEPS, Profile, load_profile
from certloop.synth.perturb.treat import Treated, treat

__all__ = ["STEPS", "Profile", "Treated", "load_profile", "treat"]
