"""Random kernels in Python: source text that is written into a file, imported, and run in several ways.

Numbers stay small and exact (integers, and floats that are multiples of 1/4), so that all ways agree to the bit.
"""

from __future__ import annotations

import random

HEAD = """from dataclasses import dataclass

import hologram as hg

@dataclass
class Pair:
    left: int
    right: int = 3

    def apart(self, by):
        return self.left - self.right * by

@hg.func
def small(x):
    return hg.f32(hg.i32(x) % 8 - 3)

@hg.func
def chosen(a, b, c):
    if a > b:
        return c
    total = 0
    for k in range(3):
        if total + k + a > c:
            return k
        total += 2
    return b

"""


class Writer:
    """Writes one kernel; `random` decides."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.names = {"i32": ["i", "n"], "f32": ["s"]}
        self.count = 0
        self.shared = self.random.random() < 0.4
        self.atomics = self.random.random() < 0.4

    def text(self) -> str:
        r = self.random
        threads = r.choice([4, 8])
        head = f"@hg.kernel(workgroup={threads})" if self.shared else "@hg.kernel"
        self.lines = [
            head,
            "def kernel(x: hg.Array[hg.i32], y: hg.Array[hg.f32], out: hg.Array[hg.i32], floats: hg.Array[hg.f32],",
            "           counts: hg.Array[hg.i32], n: hg.i32, s: hg.f32):",
            "    i = hg.index()",
            "    mine = hg.local(4, hg.i32)",
        ]
        if self.shared:
            self.lines.append(f"    ours = hg.shared({threads}, hg.i32)")
        for k in range(2):
            self.lines += [
                f"    a{k} = x[i] * {r.randint(-3, 3)} + {r.randint(-5, 5)}",
                f"    f{k} = y[i] + {k}.25",
            ]
            self.names["i32"].append(f"a{k}")
            self.names["f32"].append(f"f{k}")
        if self.shared:
            self.lines += ["    t = hg.thread_index()", f"    ours[t] = {self.integer()}", "    hg.barrier()"]
            self.lines += [f"    a0 = a0 + ours[{threads - 1} - t]", "    hg.barrier()"]
            self.together(threads)
        self.block(1, r.randint(2, 6), loop=False)
        self.lines += [f"    out[i] = {self.integer()}", f"    floats[i] = {self.floating()}"]
        return HEAD + "\n".join(self.lines) + "\n"

    def together(self, threads: int) -> None:
        """What all threads of a workgroup do, once or in a loop that is the same for all of them."""
        r, depth = self.random, 1
        if r.random() < 0.4:
            self.lines.append(f"    for turn in range({r.choice(['3', 'n % 4'])}):")
            depth = 2
        width = r.choice([w for w in (2, 4, 8) if w <= threads])
        for _ in range(r.randint(1, 2)):
            a, b = self.integer(2), self.integer(2)
            forms = [
                f"a1 = (a1 + hg.subgroup_sum(({a}) % 101, {width})) % 1009",
                f"a1 = hg.subgroup_{r.choice(['min', 'max'])}({a}, {width}) - a1 % 5",
                f"a0 = hg.subgroup_shuffle({a}, {b}, {width})",
                f"f1 = hg.subgroup_broadcast(hg.vec2(f1, {self.floating(2)}), {r.randint(0, 9)}, {width}).y",
                f"a0 += hg.i32(hg.subgroup_{r.choice(['any', 'all'])}({self.condition(2)}, width={width}))",
                f"hg.atomic_{r.choice(['add', 'max', 'xor'])}(ours, ({a}) % {threads}, {b})",
            ]
            self.put(depth, r.choice(forms))
        self.put(depth, "hg.barrier()")
        self.put(depth, f"a1 += ours[(t + 1) % {threads}] % 31")
        self.put(depth, "hg.barrier()")

    # Expressions.

    def integer(self, depth: int = 0) -> str:
        r = self.random
        kind = r.randint(0, 9 if depth < 3 else 1)
        if kind <= 1:
            return r.choice(self.names["i32"]) if kind or r.random() < 0.6 else str(r.randint(-4, 9))
        a, b = self.integer(depth + 1), self.integer(depth + 1)
        forms = [
            f"({a} + {b})", f"({a} - {b})", f"(({a}) % 97 * (({b}) % 13))", f"({a} // {r.choice([2, 3, -4])})",
            f"({a} % {r.choice([2, 5, -3])})", f"({a} if {self.condition(depth + 1)} else {b})", f"min({a}, {b})",
            f"max({a}, {b})", f"({a} & {b})", f"({a} ^ {r.randint(0, 15)})", f"abs({a})", f"chosen({a}, {b}, {b} % 7)",
            f"hg.i32({self.floating(depth + 1)})", f"mine[({a}) % 4]", f"(({a}) % 64 << {r.randint(0, 3)})",
            f"hg.i32(hg.{r.choice(['u8', 'i8', 'u16', 'i16'])}({a}))", f"hg.i32(hg.u32({a}) >> {r.randint(1, 9)})",
            f"hg.i32(hg.i64({a}) * {r.choice([100003, -7])} % 1009)", f"hg.vec2({a}, {b})[({a}) % 2]",
            f"Pair({a}, {b}).apart({r.randint(-3, 3)})", f"(hg.vec3({a}, {b}, 1) % 11).zxy.dot(hg.vec3(1, -2, 3))",
        ]  # fmt: skip
        return r.choice(forms)

    def floating(self, depth: int = 0) -> str:
        r = self.random
        if depth >= 3 or r.random() < 0.3:
            return r.choice([*self.names["f32"], f"{r.randint(-8, 8) / 4}"])
        a, b = self.floating(depth + 1), self.floating(depth + 1)
        forms = [
            f"({a} + {b})", f"({a} - {b})", f"min({a}, {b})", f"max({a}, {b})", f"(-{a})", f"abs({a})", f"({a} * 0.5)",
            f"({a} if {self.condition(depth + 1)} else {b})", f"hg.f32(({self.integer(depth + 1)}) % 1000)",
            f"(hg.mat2(small({a}), 2.0, small({b}), -1.0) @ hg.vec2(small({b}), 1.5)).y",
            f"(hg.mat2(small({a})) @ hg.mat2(1.0, small({b}), 3.0, 0.5)).T[{r.randint(0, 1)}, 0]",
            f"hg.mat3(hg.vec3(small({a}), 1.0, 2.0), hg.vec3(small({b})), hg.vec3(0.5, 1.0, 4.0)).determinant()",
        ]  # fmt: skip
        return r.choice(forms)

    def condition(self, depth: int = 0) -> str:
        r = self.random
        a, b = self.integer(depth + 1), self.integer(depth + 1)
        forms = [
            f"{a} < {b}",
            f"{a} == {b}",
            f"-3 < {a} <= {b}",
            f"{self.floating(depth + 1)} > {r.randint(-2, 2)}.0",
        ]
        one = r.choice(forms)
        if depth < 2 and r.random() < 0.3:
            other = self.condition(depth + 1)
            one = r.choice([f"({one} and {other})", f"({one} or {other})", f"(not ({one}))"])
        return one

    # Statements.

    def block(self, depth: int, count: int, loop: bool) -> None:
        before = {kind: [*names] for kind, names in self.names.items()}
        for _ in range(count):
            self.statement(depth, loop)
        self.put(depth, "pass")
        self.names = before

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int, loop: bool) -> None:
        r = self.random
        kinds = [
            "let",
            "let",
            "set",
            "set",
            "memory",
            "if",
            "for",
            "while",
            "way",
            "atomic",
            "several",
            "known",
        ]
        kind = r.choice(kinds)
        if depth > 3 and kind in ("if", "for", "while", "known"):
            kind = "set"
        if kind == "let":
            self.count += 1
            which = r.choice(["i32", "f32"])
            name = f"v{self.count}"
            value = f"hg.i32({self.integer()})" if which == "i32" else f"hg.f32({self.floating()})"
            if r.random() < 0.4:
                value = str(r.randint(-5, 5)) if which == "i32" else f"{r.randint(-8, 8) / 4}"
            self.put(depth, f"{name} = {value}")
            self.names[which].append(name)
        elif kind == "set":
            which = r.choice(["i32", "f32"])
            name = r.choice([x for x in self.names[which] if x[0] in "avf"])
            if which == "i32":
                self.put(depth, f"{name} {r.choice(['=', '+=', '-='])} ({self.integer()}) % 1009")
            else:
                self.put(depth, f"{name} = min(max({self.floating()}, -1000.0), 1000.0)")
        elif kind == "several":
            self.several(depth)
        elif kind == "known":
            self.count += 1
            name = f"k{self.count}"
            self.put(depth, f"for {name} in {r.choice(['hg.static(range(3))', '(2, -1, 4)'])}:")
            self.names["i32"].append(name)
            self.block(depth + 1, r.randint(1, 2), loop=True)
            self.names["i32"].remove(name)
        elif kind == "memory":
            self.put(depth, f"mine[({self.integer()}) % 4] = {self.integer()}")
        elif kind == "atomic" and self.atomics:
            word = r.choice(["add", "xor"])
            place = "0" if word == "add" else "1"
            self.put(depth, f"hg.atomic_{word}(counts, {place}, {self.integer()})")
        elif kind == "if":
            self.put(depth, f"if {self.condition()}:")
            self.block(depth + 1, r.randint(1, 2), loop)
            if r.random() < 0.5:
                self.put(depth, f"elif {self.condition()}:" if r.random() < 0.4 else "else:")
                self.block(depth + 1, r.randint(1, 2), loop)
        elif kind == "for":
            self.count += 1
            name = f"k{self.count}"
            bounds = r.choice(
                [f"({self.integer()}) % 4", "-1, 3", "3, -2, -1", f"0, ({self.integer()}) % 6, 2"]
            )
            self.put(depth, f"for {name} in range({bounds}):")
            self.names["i32"].append(name)
            self.block(depth + 1, r.randint(1, 3), True)
            self.names["i32"].remove(name)
        elif kind == "while":
            self.count += 1
            name = f"w{self.count}"
            self.put(depth, f"{name} = hg.i32(0)")
            self.put(depth, f"while {name} < 5 and {self.condition()}:")
            self.put(depth + 1, f"{name} += 1")
            self.block(depth + 1, r.randint(1, 3), True)
        elif kind == "way":
            way = r.choice(["break", "continue"] if loop else ["return"])
            if way == "return" and r.random() < 0.7:
                return
            self.put(depth, f"if {self.condition()}:")
            self.put(depth + 1, way)

    def several(self, depth: int) -> None:
        """Values with parts: variables that change places, vectors, matrices and dataclasses, changed by part."""
        r = self.random
        self.count += 1
        name = f"p{self.count}"
        kind = r.choice(["swap", "pair", "vector", "matrix"])
        if kind == "swap":
            self.put(depth, "a0, a1 = a1 % 1009, a0")
            return
        a, b = self.integer(2), self.integer(2)
        if kind == "pair":
            self.put(depth, f"{name} = Pair({a} % 97, right={b} % 97)")
            self.put(depth, f"if {self.condition(1)}:")
            self.put(depth + 1, f"{name}.{r.choice(['left', 'right'])} += {self.integer(2)} % 97")
            self.put(depth, f"a0 = {name}.apart(2) % 1009")
        elif kind == "vector":
            self.put(depth, f"{name} = hg.vec3({a}, {b}, 1) % 97")
            self.put(depth, "for part in range(3):")
            self.put(depth + 1, f"{name}[part] {r.choice(['+=', '-='])} {self.integer(2)} % 97")
            self.put(depth, f"a1 = {name}.x + {name}.zy.dot(hg.vec2(1, -1))")
        else:
            self.put(depth, f"{name} = hg.mat2(small({self.floating(2)}), 1.0, -2.0, 0.5)")
            self.put(depth, f"{name}[{r.randint(0, 1)}, ({a}) % 2] = small({self.floating(2)})")
            self.put(depth, f"f0 = ({name} @ {name}.transpose()).trace()")
