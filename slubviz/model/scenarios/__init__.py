"""Scenarios: short prepared runs that show one thing, told in steps, with the outcome that they must have.

A scenario is a TOML file (docs/scenarios.md).  ``load_scenario`` and ``known_scenarios`` read it and need no
engine; ``scenarios.run`` plays it.
"""

from slubviz.model.scenarios.files import known_scenarios, load_scenario, parse_scenario, scenario_files
from slubviz.model.scenarios.scenario import OutcomeKind, Scenario, ScenarioError

__all__ = [
    "OutcomeKind",
    "Scenario",
    "ScenarioError",
    "known_scenarios",
    "load_scenario",
    "parse_scenario",
    "scenario_files",
]
