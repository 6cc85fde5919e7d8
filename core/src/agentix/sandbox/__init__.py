"""Sandboxes as the host uses them: the base class of providers, and the one concrete sandbox."""

from agentix.runtime.context import context_var
from agentix.sandbox.command import CommandStream
from agentix.sandbox.extract import Refusal
from agentix.sandbox.forward import ForwardAddress
from agentix.sandbox.host_process import HostProcessProvider
from agentix.sandbox.owner import Owner, start_time
from agentix.sandbox.provider import BaseProvider
from agentix.sandbox.sandbox import Sandbox, Unreleased
from agentix.sandbox.service import Service
from agentix.sandbox.socket_stream import SocketStream
from agentix.sandbox.tool import HUB_ENV, HUB_SETTINGS, PROXY_ENV, ask_tool, run_tool
from agentix.sandbox.transfer import DownloadReport
from agentix.sandbox.tree import Tree, TreeEntry
from agentix.sandbox.untrusted_tar import unpack_tar

__all__ = [
    "HUB_ENV",
    "HUB_SETTINGS",
    "PROXY_ENV",
    "BaseProvider",
    "CommandStream",
    "DownloadReport",
    "ForwardAddress",
    "HostProcessProvider",
    "Owner",
    "Refusal",
    "Sandbox",
    "Service",
    "SocketStream",
    "Tree",
    "TreeEntry",
    "Unreleased",
    "ask_tool",
    "context_var",
    "run_tool",
    "start_time",
    "unpack_tar",
]
