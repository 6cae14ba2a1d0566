"""MSL to compute pipelines. Equal texts give one pipeline, as long as somebody uses it."""

from __future__ import annotations

import weakref
from typing import Any

from hologram.backends.metal.queue import Queue
from hologram.foundation.errors import CompileError

# MTLMathModeSafe and MTLMathFloatingPointFunctionsPrecise: pyobjc names them from 11 on, macOS 15 takes them from any.
MATH_MODE_SAFE, FUNCTIONS_PRECISE = 0, 1


class Pipeline:
    """A compiled kernel."""

    __slots__ = ("__weakref__", "state")

    def __init__(self, state: Any) -> None:
        self.state = state  # MTLComputePipelineState


class Pipelines:
    """Compiles for one device. Any thread may ask; two that ask for one text at once may both compile it."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._known: weakref.WeakValueDictionary[tuple[str, str, int], Pipeline] = (
            weakref.WeakValueDictionary()
        )
        metal = queue.framework.metal
        self._options = options = metal.MTLCompileOptions.alloc().init()
        options.setLanguageVersion_(metal.MTLLanguageVersion3_1)
        if options.respondsToSelector_("setMathMode:"):  # macOS 15 and later
            options.setMathMode_(MATH_MODE_SAFE)
            # Of the mode apart, and fast by default: a few thousand ULP of sin.
            options.setMathFloatingPointFunctions_(FUNCTIONS_PRECISE)
        else:  # both at once
            options.setFastMathEnabled_(False)

    def get(self, entry: str, text: str, threads: int) -> Pipeline:
        """The pipeline of an entry point for workgroups of so many threads; raises CompileError."""
        pipeline = self._known.get((entry, text, threads))
        if pipeline is None:
            pipeline = self._known[entry, text, threads] = Pipeline(self.compile(entry, text, threads))
        return pipeline

    def compile(self, entry: str, text: str, threads: int) -> Any:
        """A new MTLComputePipelineState; raises CompileError with Metal's message."""
        queue = self.queue
        with queue.framework.pool():
            library, error = queue.device.newLibraryWithSource_options_error_(text, self._options, None)
            if library is None:
                raise CompileError(entry, _said(error), text)
            function = library.newFunctionWithName_(entry)
            if function is None:
                raise CompileError(entry, f"the text declares no kernel {entry}", text)
            descriptor = queue.framework.metal.MTLComputePipelineDescriptor.alloc().init()
            descriptor.setComputeFunction_(function)
            # The compiler is to spend no more registers on a thread than leave room for as many.
            descriptor.setMaxTotalThreadsPerThreadgroup_(threads)
            made = queue.device.newComputePipelineStateWithDescriptor_options_reflection_error_(
                descriptor, 0, None, None
            )
            pipeline, error = made[0], made[-1]
            if pipeline is None:
                raise CompileError(entry, _said(error), text)
            most = int(pipeline.maxTotalThreadsPerThreadgroup())
            if most < threads:
                what = f"{queue.name} runs at most {most} threads of it in a workgroup, it has {threads}"
                raise CompileError(entry, what, text)
            return pipeline


def _said(error: Any) -> str:
    return "Metal says nothing" if error is None else str(error.localizedDescription()).strip()
