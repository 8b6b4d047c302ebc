"""The environment: tasks, tools, the ReAct loop, injected faults and the multi-dimensional reward. It knows no domain."""

from certloop.agentrl.env.decisions import parse_decision
from certloop.agentrl.env.episode import Episode, EpisodeConfig, EpisodeReward, Limits, run_episode, run_group
from certloop.agentrl.env.errors import EnvironmentFault
from certloop.agentrl.env.faults import Fault, FaultSource, alter, no_faults, random_faults, scripted_faults
from certloop.agentrl.env.task import Decision, Grade, Policy, Sampled, Task, TaskGenerator, View
from certloop.agentrl.env.tools import Args, ErrorKind, Executor, Tool, ToolFailure, ToolKind
from certloop.agentrl.trajectory import Action, Outcome, ToolResult

__all__ = [
    "Action", "Args", "Decision", "EnvironmentFault", "Episode", "EpisodeConfig", "EpisodeReward", "ErrorKind", "Executor",
    "Fault", "FaultSource", "Grade", "Limits", "Outcome", "Policy", "Sampled", "Task", "TaskGenerator", "Tool", "ToolFailure",
    "ToolKind", "ToolResult", "View", "alter", "no_faults", "parse_decision", "random_faults", "run_episode", "run_group",
    "scripted_faults",
]  # fmt: skip
