"""LLVM at work: IR text to machine code for this computer's CPU, through llvmlite, which is imported on first use."""

from __future__ import annotations

import ctypes
import functools
import platform
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from hologram.foundation.config import config
from hologram.foundation.errors import CompileError
from hologram.foundation.frozen import frozen


@frozen
class Code:
    """Machine code: the addresses of its functions, and what keeps them valid."""

    addresses: tuple[int, ...]
    owner: Any


@dataclass
class _Making:
    """Code that a thread makes, and others wait for."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    code: Code | None = None


class Engine:
    """Compiles modules, and loads what was compiled before. Threads compile side by side, in contexts of their own.

    `target` names what machine code is for and by which LLVM. HOLOGRAM_CPU_OPTIMISE is asked for each module.
    """

    def __init__(self) -> None:
        import llvmlite.binding as llvm

        self._llvm = llvm
        self._lock = threading.Lock()
        self._making: dict[str, _Making] = {}
        self._loaded: WeakValueDictionary[str, Code] = WeakValueDictionary()
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        features = llvm.get_host_cpu_features()
        without = config.cpu_without
        features.update({name: False for name in features if name.startswith(without)} if without else {})
        # One process can hold code for the host only, so its own name and features are always right.
        self.cpu = llvm.get_host_cpu_name()
        self.vector_bits = 512 if features.get("avx512f") else 256 if features.get("avx") else 128
        # Of vectors of short integers, which x86 has widened later than those of floats.
        self.integer_bits = 512 if features.get("avx512bw") else 256 if features.get("avx2") else 128
        vnni = "avx512vnni" if self.integer_bits == 512 else "avxvnni"
        self.adds_products = bool(features.get(vnni)) and self.integer_bits >= 256
        # Products of two neighbouring bf16 each, added up in f32.
        self.multiplies_pairs = bool(features.get("avx512bf16")) and self.vector_bits == 512
        known = {"x86_64": "x86", "amd64": "x86", "arm64": "arm", "aarch64": "arm"}
        self.architecture = known.get(platform.machine().lower(), "")
        # LLVM would call a routine for f16 that this process does not have.
        has_half = features.get("f16c") or self.architecture == "arm"
        self.problem = "" if has_half else f"{self.cpu} cannot convert half-precision numbers"
        self._flags = features.flatten()
        if self.adds_products:  # or LLVM would write two instructions for the one that is asked for
            self._flags += ",+fast-dpwssd"
        version = ".".join(map(str, llvm.llvm_version_info))
        self.target = f"LLVM {version} {llvm.get_process_triple()} {self.cpu} {self._flags}"

    @property
    def made_for(self) -> str:
        """The target, and how its code is made now: what another one's made must not be loaded."""
        return self.target if config.cpu_optimise else f"{self.target} unoptimised"

    def _machine(self) -> Any:
        target = self._llvm.Target.from_default_triple()
        level = 3 if config.cpu_optimise else 0
        return target.create_target_machine(cpu=self.cpu, features=self._flags, opt=level, jit=True)

    def optimise(self, name: str, text: str) -> tuple[Any, Any]:
        """The module after LLVM's passes, and the machine that it is for."""
        llvm = self._llvm
        try:
            module = llvm.parse_assembly(text, llvm.create_context())
            module.verify()
        except RuntimeError as error:
            raise CompileError(name, str(error), text) from error
        machine = self._machine()
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        if not config.cpu_optimise:
            return module, machine
        # Level 3 would copy every loop around rows for the case that these are empty.
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = True
        options.slp_vectorization = True
        options.loop_unrolling = True
        options.loop_interleaving = True
        builder = llvm.create_pass_builder(machine, options)
        manager = builder.getModulePassManager()
        _at_once(llvm.ffi.lib.LLVMPY_RunNewModulePassManager)(manager, module, builder)
        dispose = llvm.newpassmanagers.NewPassManager._dispose
        if (
            type(manager)._dispose is not dispose
        ):  # llvmlite's own class inherits one that leaves 50 KB behind
            dispose(manager)
        return module, machine

    def compile(self, name: str, text: str) -> bytes:
        """An object file for IR; raises CompileError with the text."""
        llvm = self._llvm
        module, machine = self.optimise(name, text)
        with llvm.ffi.OutputString() as problem:
            emit = _at_once(llvm.ffi.lib.LLVMPY_TargetMachineEmitToMemory)
            buffer = emit(machine, module, 1, problem)
            if not buffer:
                raise CompileError(name, str(problem), text)
        try:
            size = llvm.ffi.lib.LLVMPY_GetBufferSize(buffer)
            return ctypes.string_at(llvm.ffi.lib.LLVMPY_GetBufferStart(buffer), size)
        finally:
            llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)

    def load(self, content: bytes, functions: Sequence[str]) -> Code:
        """Machine code of an object file; raises ValueError if it lacks a function.

        The content must be what `compile` gave on such a target: LLVM takes it on trust, and crashes on anything else.
        """
        llvm = self._llvm
        with self._lock:
            nothing = llvm.parse_assembly("")
            engine = llvm.create_mcjit_compiler(nothing, self._machine())
            engine.remove_module(nothing)  # or two thirds of the time here would go into compiling it
            engine.add_object_file(llvm.ObjectFileRef.from_data(content))
            engine.finalize_object()
            addresses = tuple(engine.get_function_address(f) for f in functions)
        if 0 in addresses:
            raise ValueError(f"the object file must have {functions}, their addresses are {addresses}")
        return Code(addresses, engine)

    def once(self, key: str, make: Callable[[], Code]) -> Code:
        """What `make` gives; threads that ask for one key at once wait for the first one's.

        While somebody has what was made for a key before, that is given: launches are compared by addresses of code.
        """
        with self._lock:
            making = self._making.setdefault(key, _Making())
        try:
            with making.lock:
                made = making.code = making.code or make()
            with self._lock:
                return self._loaded.setdefault(key, made)
        finally:
            with self._lock:
                if self._making.get(key) is making:  # not what others began meanwhile
                    del self._making[key]

    def released(self) -> None:
        """Gives back the lock around LLVM's calls where this thread still has it.

        Ctrl-C within llvmlite's own lock leaves it held by the main thread, and all others would wait for good.
        """
        with suppress(AttributeError):  # of an llvmlite with another lock
            lock: Any = self._llvm.ffi.lib._lock._lock
            while lock._is_owned():
                lock.release()

    def provide(self, library: Any, names: Sequence[str]) -> None:
        """Makes functions of a loaded library known to compiled code."""
        for name in names:
            self.know(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)

    def know(self, name: str, address: int | None) -> None:
        """Makes code at an address known to what is loaded afterwards."""
        self._llvm.add_symbol(name, address)

    def assembly(self, name: str, text: str) -> str:
        """The machine code as text, for people."""
        module, machine = self.optimise(name, text)
        return machine.emit_assembly(module)


def _at_once(function: Any) -> Any:
    """A function of llvmlite's without the lock that lets one call at a time into LLVM.

    For calls that take most of the time, on modules of contexts that no other thread has: LLVM needs no lock there.
    """
    return getattr(function, "_cfn", function)


@functools.lru_cache(maxsize=1)
def shared_engine() -> Engine:
    """The process's engine; raises ImportError without llvmlite."""
    return Engine()
