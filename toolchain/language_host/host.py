"""The language host's answers: what the engine asks of a language, for Python.

Programs run in this process, with the interpreter of the project's `.venv`; policy packs run in
a process of their own. The wire is the one that the installed `pulumi` package ships.
"""

import importlib.metadata
import os
import queue
import runpy
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import grpc
import pulumi
from google.protobuf import empty_pb2
from pulumi.automation._server import LanguageServer
from pulumi.runtime.proto import language_pb2, plugin_pb2
from pulumi.runtime.settings import SETTINGS

ANALYZER_KIND = "analyzer"
PLUGIN_MODULE = "toolchain.language_host.plugin"


class PythonHost(LanguageServer):
    """Answer the engine's questions about Python programs and policy packs."""

    def __init__(self, *, engine_address: str) -> None:
        """Keep the engine's address; a handshake may replace it."""
        super().__init__(program=_no_program)
        self.engine_address = engine_address

    def Handshake(
        self, request: language_pb2.LanguageHandshakeRequest, context: grpc.ServicerContext
    ) -> language_pb2.LanguageHandshakeResponse:
        """Take the engine's address."""
        self.engine_address = request.engine_address or self.engine_address
        return language_pb2.LanguageHandshakeResponse()

    def GetPluginInfo(
        self, request: object, context: grpc.ServicerContext
    ) -> plugin_pb2.PluginInfo:
        """Return the version of the SDK, whose protocol this host speaks."""
        return plugin_pb2.PluginInfo(version=importlib.metadata.version("pulumi"))

    def GetProgramDependencies(
        self, request: language_pb2.GetProgramDependenciesRequest, context: grpc.ServicerContext
    ) -> language_pb2.GetProgramDependenciesResponse:
        """Return every distribution that is installed beside this host."""
        found = {item.name: item.version for item in importlib.metadata.distributions()}
        return language_pb2.GetProgramDependenciesResponse(
            dependencies=[
                language_pb2.DependencyInfo(name=name, version=version)
                for name, version in sorted(found.items())
            ]
        )

    def InstallDependencies(
        self, request: language_pb2.InstallDependenciesRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.InstallDependenciesResponse]:
        """Say that `make setup` does this; install nothing."""
        text = b"paddock: dependencies are installed by `make setup`\n"
        yield language_pb2.InstallDependenciesResponse(stdout=text)

    def Run(
        self, request: language_pb2.RunRequest, context: grpc.ServicerContext
    ) -> language_pb2.RunResponse:
        """Run the program in its directory; every error has been logged to the engine once."""
        del request.args[:]
        request.args.append(self.engine_address)
        program_path = Path(request.info.program_directory, request.info.entry_point).resolve()
        os.chdir(request.pwd or request.info.program_directory)
        root = request.info.root_directory
        self.program = lambda: _run_program(program_path, root_directory=root)
        # The stub of the context's type is private to the package.
        response = super().Run(request, context)  # pyright: ignore[reportArgumentType]
        return language_pb2.RunResponse(bail=bool(response.error))

    def RunPlugin(
        self, request: language_pb2.RunPluginRequest, context: grpc.ServicerContext
    ) -> Iterator[language_pb2.RunPluginResponse]:
        """Run a policy pack and relay its output and exit code until it ends or the call does."""
        if request.kind != ANALYZER_KIND:
            message = f"this language host runs policy packs, not a plugin of kind {request.kind!r}"
            context.abort(grpc.StatusCode.UNIMPLEMENTED, message)
        pack = Path(request.info.program_directory, request.info.entry_point).resolve()
        command = [sys.executable, "-u", "-P", "-m", PLUGIN_MODULE, "pulumi.policy"]
        process = subprocess.Popen(
            [*command, *request.args, str(pack)],
            cwd=request.pwd or str(pack),
            env=dict(entry.split("=", 1) for entry in request.env if "=" in entry) or None,
            stdin=subprocess.PIPE,  # hangs up when this host dies
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if not context.add_callback(process.kill):
            process.kill()
        yield from _relay(process)

    def Cancel(self, request: object, context: grpc.ServicerContext) -> empty_pb2.Empty:
        """Accept the engine's wish to cancel: it fails the program's next request by itself."""
        return empty_pb2.Empty()


def _no_program() -> None:
    raise AssertionError("Run sets the program")


def _run_program(program_path: Path, *, root_directory: str) -> None:
    """Run a program as `python <path>` would, and put an error of its own into one message."""
    # The SDK's server leaves it unset, so `pulumi.get_root_directory()` would answer None. Its
    # attributes are context properties, whose setter takes plain values.
    SETTINGS.root_directory = root_directory  # pyright: ignore[reportAttributeAccessIssue]
    main_file = program_path / "__main__.py" if program_path.is_dir() else program_path
    sys.path.insert(0, str(main_file.parent))
    sys.argv = [str(main_file)]
    try:
        runpy.run_path(str(main_file), run_name="__main__")
    except pulumi.RunError:
        raise
    except SystemExit as error:
        if error.code not in (None, 0):
            raise pulumi.RunError(f"the program ended with exit code {error.code}") from error
    except Exception as error:  # the process boundary: the engine shows it
        raise pulumi.RunError(_describe(error, main_file=main_file)) from error


def _describe(error: Exception, *, main_file: Path) -> str:
    """Return the traceback from the program's first frame on, without this host's frames."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != str(main_file):
        frame = frame.tb_next
    lines = traceback.format_exception(type(error), error, frame or error.__traceback__)
    return "Program failed with an unhandled exception:\n" + "".join(lines).rstrip()


def _relay(process: "subprocess.Popen[bytes]") -> Iterator[language_pb2.RunPluginResponse]:
    """Yield what the process writes as it comes, and its exit code last."""
    chunks: queue.SimpleQueue[language_pb2.RunPluginResponse | None] = queue.SimpleQueue()

    def read(stream: IO[bytes], wrap: Callable[[bytes], language_pb2.RunPluginResponse]) -> None:
        while chunk := os.read(stream.fileno(), 65536):
            chunks.put(wrap(chunk))
        chunks.put(None)

    assert process.stdout is not None
    assert process.stderr is not None
    for stream, wrap in (
        (process.stdout, lambda chunk: language_pb2.RunPluginResponse(stdout=chunk)),
        (process.stderr, lambda chunk: language_pb2.RunPluginResponse(stderr=chunk)),
    ):
        threading.Thread(target=read, args=(stream, wrap), daemon=True).start()
    num_open = 2
    while num_open:
        chunk = chunks.get()
        if chunk is None:
            num_open -= 1
        else:
            yield chunk
    yield language_pb2.RunPluginResponse(exitcode=process.wait())
