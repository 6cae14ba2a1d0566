"""What a device can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cached_property

from hologram.foundation.dtypes import DType, f32, f64
from hologram.foundation.frozen import frozen

# Bytes: where bindings may begin (WebGPU's rule), and a multiple of every vector and cache line.
ALIGNMENT = 256
# More than caches hold: from there on a device that works in the host's memory copies quicker than NumPy.
STREAMED_BYTES = 16 << 20
# Where the same bits are wanted everywhere: how many terms a lane adds up, and of how many rows that read them alike.
TERMS_OF_A_LANE, ROWS_OF_A_LANE = 2048, 8
# What slices of rows are multiples of, so that each starts where vectors do.
_ROUND = 64

# Hand-written kernels that plans take for granted where a device has all of these capabilities.
PROMISED: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("tile_dtypes",), ("matmul", "conv2d", "attention_few")),
    (("tile_dtypes", "workgroup_memory"), ("attention", "scan", "sort")),
    (("tile_dtypes", "software"), ("matmul_register", "matmul_subgroup")),
    (("panel_dtypes",), ("matmul",)),
    (("own_products",), ("matmul", "conv2d", "conv2d_weight")),
    (("own_orders",), ("order_rows",)),
    (("own_transforms",), ("fourier", "fourier_halves")),
    (("own_packed",), ("packed_product", "packed_experts", "packed_weights")),
    (("matrix_dtypes",), ("matmul_units",)),
    (("rounded_dtypes",), ("matmul_units",)),
    (("copies_ahead",), ("matmul_ahead",)),
    (("bulk_bytes",), ("matmul_bulk",)),
    (("library_products",), ("matmul_library",)),
    (("matrix_attention",), ("attention_units",)),
    (
        ("matrix_attention", "copies_ahead"),
        ("attention_gradient_queries_units", "attention_gradient_keys_units"),
    ),
)


def slice_length(length: int, parts: int) -> int:
    """How long each slice of a row is that is cut in so many, or fewer; the last one may be shorter."""
    size = -(-length // parts)
    return size if size <= _ROUND else -(-size // _ROUND) * _ROUND


@frozen
class Limits:
    """Capabilities of a device, asked from its driver; code asks these, never the device's name.

    Each is read somewhere, and what it promises is there: a device that lacks it is refused at opening (claims.py).
    """

    dtypes: frozenset[DType]
    max_buffer_bytes: int
    max_binding_bytes: int
    max_bindings: int  # storage buffers one kernel can see
    max_workgroups: int  # along one dimension
    max_workgroup_threads: int
    shared_bytes: int  # per workgroup
    subgroup: int  # threads that run in step; 1 where unknown
    unified_memory: bool  # the device computes in the host's memory
    parallelism: int  # compute units or cores, 0 where unknown
    software: bool  # a CPU emulates the device: barriers are dear, one thread per element is dearer
    # Host views may be kept and used at any time: a launch is done when its call returns, and memory does not move.
    host_resident: bool = False
    # Those that programs compute in two words each, for the device has no such numbers; hand-written kernels cannot.
    emulated_dtypes: frozenset[DType] = frozenset()
    splits_rows: bool = False  # a launch shares one long row out over the whole device by itself
    # A launch costs a call of a function; elsewhere as much as thousands of elements.
    cheap_launches: bool = False
    # A library of the backend's own multiplies matrices, and chooses its tiles and parts.
    own_products: bool = False
    own_orders: bool = False  # code of the backend's own puts rows of keys in order
    own_transforms: bool = False  # code of the backend's own makes Fourier transforms
    own_attention: bool = False  # code of the backend's own attends by few queries to many keys
    # Code of the backend's own multiplies few rows with packed weights as they lie, and makes these floats.
    own_packed: bool = False
    # Hand-written kernels that take matrices apart: a library's, on the host's memory.
    factors: tuple[str, ...] = ()
    packed_rows: int = 0  # up to which that is quicker than products with these floats
    serial_workgroups: bool = False  # one core runs the threads of a workgroup one after the other
    # One launch cannot read one part of a buffer and write another unless its kernel is compiled for that.
    tracks_whole_buffers: bool = False
    # What of foundation.conduct.CONDUCT its arithmetic does not keep: drivers are asked where standards leave it open.
    shortfalls: tuple[str, ...] = ()
    exact_division: bool = True  # quotients and square roots are correctly rounded
    fused_multiply_add: bool = True  # with one rounding
    # Dtypes that hand-written kernels can use as they lie in memory; plans convert others first.
    tile_dtypes: frozenset[DType] = frozenset({f32})
    # Those that a library of the backend's own multiplies as they lie in memory, adding up in f32; results may be f32.
    panel_dtypes: frozenset[DType] = frozenset()
    # Those that the hand-written kernels multiply by matrix units as they lie in memory, adding up in f32.
    matrix_dtypes: frozenset[DType] = frozenset()
    # Those that they can multiply too, of operands rounded first: f32 with a fraction of 10 bits (tf32).
    rounded_dtypes: frozenset[DType] = frozenset()
    # Workgroup memory, in bytes, of kernels to which the device copies tiles by itself, and which multiply them where
    # they lie there; 0: it has no matrix units that do.
    bulk_bytes: int = 0
    # Those that a library of the vendor's multiplies too: a way that is taken where it was measured to be faster.
    library_products: frozenset[DType] = frozenset()
    # There are kernels for matrix units for attention too.
    matrix_attention: bool = False
    # Those kernels copy to workgroup memory ahead; of attention's gradient there are none that do not.
    copies_ahead: bool = False
    # Programs are made of operations that are rounded alike everywhere, and drivers are kept from rearranging them.
    reproducible: bool = False
    binding_alignment: int = ALIGNMENT  # bytes: where a buffer's part that a kernel sees as a whole may begin

    def row_stride(self, nbytes: int) -> int:
        """Bytes from one row of so many to the next, where kernels are to see each as a buffer's part."""
        return -(-nbytes // self.binding_alignment) * self.binding_alignment

    @property
    def loop_turns(self) -> int:
        """That all loops of one thread may take together; 0: as many as they like.

        llvmpipe ends each of them, without a word, once they took 65,535: Mesa's LP_MAX_TGSI_LOOP_ITERATIONS, which
        nothing changes. Seen with 22.3; 26 has no such limit.
        """
        return 0 if self.keeps("loops") else 65_000

    def keeps(self, word: str) -> bool:
        """Whether its arithmetic keeps what a word of foundation.conduct.CONDUCT says."""
        return word not in self.shortfalls

    @cached_property
    def text(self) -> str:
        """The same for equal limits, in every process."""
        values = [(f.name, getattr(self, f.name)) for f in fields(self)]
        return str([(n, sorted(map(str, v)) if isinstance(v, frozenset) else v) for n, v in values])

    @cached_property
    def dtype_names(self) -> frozenset[str]:
        """The names of its dtypes, whose hashes cost less than those of dtypes."""
        return frozenset(d.name for d in self.dtypes)

    @property
    def promised(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """What these limits promise: a capability, and the hand-written kernels that plans then take for granted."""
        yield "factors", self.factors
        yield from ((of[0], stems) for of, stems in PROMISED if all(getattr(self, name) for name in of))

    @property
    def product_dtypes(self) -> frozenset[DType]:
        """Those whose products need no conversion ahead."""
        return self.tile_dtypes | self.matrix_dtypes | self.panel_dtypes

    def rounding(self) -> Limits:
        """The same where a program accepts products of rounded operands."""
        return replace(self, matrix_dtypes=self.matrix_dtypes | self.rounded_dtypes)

    def reproduced(self) -> Limits:
        """The same for programs that give the same bits everywhere: of what devices differ in, nothing is used."""
        return replace(
            self,
            reproducible=True,
            # Denormal numbers of f32 are made by hand where the device has none.
            dtypes=frozenset(d for d in self.dtypes if d.part is not f64 or self.keeps("denormals")),
            max_bindings=min(self.max_bindings, 8),
            max_workgroup_threads=min(self.max_workgroup_threads, 256),
            shared_bytes=min(self.shared_bytes, 16 << 10),
            subgroup=1,
            unified_memory=False,
            parallelism=0,
            software=False,
            splits_rows=True,  # by rows that are loops
            cheap_launches=False,
            own_products=False,
            own_orders=False,
            own_transforms=False,
            own_attention=False,
            own_packed=False,
            factors=(),
            packed_rows=0,
            serial_workgroups=True,  # no workgroup memory is asked for
            exact_division=True,
            fused_multiply_add=False,
            tile_dtypes=frozenset(),
            panel_dtypes=frozenset(),
            matrix_dtypes=frozenset(),
            rounded_dtypes=frozenset(),
            bulk_bytes=0,
            library_products=frozenset(),
            matrix_attention=False,
            copies_ahead=False,
        )

    @property
    def workgroup_memory(self) -> bool:
        """Whether threads of a workgroup gain from sharing memory: a GPU, neither a CPU nor one that a CPU emulates."""
        return not (self.software or self.serial_workgroups)
