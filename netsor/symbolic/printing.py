"""Trees as unicode text and as LaTeX."""

from __future__ import annotations

from fractions import Fraction

from netsor.checks import Number
from netsor.ops import AND, OR, Fn
from netsor.symbolic import tree as t

SUPERSCRIPTS = {Fraction(2): "²", Fraction(3): "³", Fraction(4): "⁴"}
EITHER, BOTH, ADD, MULTIPLY, ATOM = range(1, 6)  # binding strength


def strength_of(value: Number) -> int:
    """Of a number as it is written: -2, 1/3, 1 + sqrt(2)."""
    if value < 0 or getattr(value, "is_Add", False):
        return ADD
    return ATOM if isinstance(value, int | float) or getattr(value, "is_Atom", False) else MULTIPLY


class Text:
    """Unicode text: `δ(a,a') σ_WQ² Σ_{j,j'} A[a,i,j] E[x_j x_j']`."""

    times = " "

    def __call__(self, tree: t.Tree) -> str:
        return self.at(tree, 0)

    def at(self, tree: t.Tree, strength: int) -> str:
        """The text of a tree, in parentheses where it binds less than `strength`."""
        text, own = self.parts(tree)
        return self.parenthesised(text) if own < strength else text

    def parts(self, tree: t.Tree) -> tuple[str, int]:
        match tree:
            case t.Num(value):
                return self.number(value), strength_of(value)
            case t.Letter(name):
                return name, ATOM
            case t.Sym(name, kind, indices):
                return self.symbol(name, kind, indices), ATOM
            case t.Kronecker(left, right):
                return self.kronecker(left, right), ATOM
            case t.Relation(relation, left, right):
                return self.relation(relation, left, right), ATOM
            case t.Mean(factors, given):
                return self.mean(self.times.join(self.moment_factor(f) for f in factors), given), ATOM
            case t.Product(matrix, vector):
                return self.product(self.at(matrix, ATOM), self.inside(vector)), ATOM
            case t.Power(base, exponent):
                return self.power(base, exponent), ATOM
            case t.Times(factors):
                return self.product_of(factors)
            case t.Quotient(top, bottom):
                return self.quotient(top, bottom)
            case t.Plus(terms):
                return self.plus(terms), ADD
            case t.Sum(letters, body):
                return self.sum([name for name, _ in letters], self.at(body, MULTIPLY)), MULTIPLY
            case t.Apply(fn, args) if fn in (AND, OR):
                own = BOTH if fn == AND else EITHER
                return self.apply(self.template(fn), str(fn), [self.at(a, own) for a in args]), own
            case t.Apply(fn, args):
                return self.apply(self.template(fn), str(fn), [self(a) for a in args]), ATOM
            case t.Reduce(fn, letter, body, mask, at):
                return self.reduce(str(fn), letter[0], self(body), None if mask is None else self(mask), at), ATOM
        raise TypeError(tree)

    def product_of(self, factors: tuple[t.Tree, ...]) -> tuple[str, int]:
        first, rest = factors[0], factors[1:]
        if isinstance(first, t.Num) and first.value < 0:
            return "-" + self.at(t.times([t.Num(-first.value), *rest]), MULTIPLY), ADD
        texts = [self.at(f, MULTIPLY) for f in factors]
        return self.times.join(texts), MULTIPLY if not texts[0].startswith("-") else ADD

    def quotient(self, top: t.Tree, bottom: t.Tree) -> tuple[str, int]:
        return f"{self.at(top, MULTIPLY)} / {self.at(bottom, ATOM)}", MULTIPLY

    def plus(self, terms: tuple[t.Tree, ...]) -> str:
        out = self.at(terms[0], ADD)
        for term in terms[1:]:
            text = self.at(term, ADD)
            out += f" - {text[1:]}" if text.startswith("-") else f" + {text}"
        return out

    def moment_factor(self, tree: t.Tree) -> str:
        """Inside an expectation variables are written x_i, without the Z."""
        if isinstance(tree, t.Sym) and tree.kind == "vector":
            return self.subscripted(tree.name, tree.indices)
        if isinstance(tree, t.Power) and isinstance(tree.base, t.Sym) and tree.base.kind == "vector":
            return self.raised(self.moment_factor(tree.base), tree.exponent)
        return self.at(tree, MULTIPLY)

    def inside(self, tree: t.Tree) -> str:
        """The argument of a matrix, without the Z."""
        if isinstance(tree, t.Sym) and tree.kind == "vector":
            return self.subscripted(tree.name, tree.indices)
        return self.at(tree, ATOM)

    def power(self, base: t.Tree, exponent: Fraction) -> str:
        if exponent == Fraction(1, 2):
            return f"√{self.at(base, ATOM)}"
        return self.raised(self.at(base, ATOM), exponent)

    # ---- what differs between text and LaTeX

    def number(self, value: Number) -> str:
        return f"{value:.12g}" if isinstance(value, float) else str(value)

    def parenthesised(self, text: str) -> str:
        return f"({text})"

    def name(self, name: str) -> str:
        return name.replace("sigma_", "σ_", 1) if name.startswith("sigma_") else name

    def symbol(self, name: str, kind: t.Kind, indices: tuple[str, ...]) -> str:
        inner = f"[{','.join(indices)}]" if indices else ""
        mark = {"score": "°", "limit": ""}.get(kind, "")
        return ("Z^" if kind == "vector" else "") + self.name(name) + mark + inner

    def subscripted(self, name: str, indices: tuple[str, ...]) -> str:
        if not indices:
            return name
        return f"{name}_{indices[0]}" if len(indices) == 1 else f"{name}_{{{','.join(indices)}}}"

    def kronecker(self, left: str, right: str) -> str:
        return f"δ({left},{right})"

    def relation(self, relation: str, left: str, right: str) -> str:
        return f"[{left} {({'!=': '≠', '<=': '≤'}).get(relation, relation)} {right}]"

    def mean(self, inner: str, given: bool) -> str:
        return f"E[{inner} | p°]" if given else f"E[{inner}]"

    def product(self, matrix: str, vector: str) -> str:
        return f"Z^({matrix} {vector})"

    def raised(self, base: str, exponent: Fraction) -> str:
        return base + SUPERSCRIPTS.get(exponent, f"^{{{exponent}}}")

    def sum(self, letters: list[str], body: str) -> str:
        under = letters[0] if len(letters) == 1 else f"{{{','.join(letters)}}}"
        return f"Σ_{under} {body}"

    def template(self, fn: Fn) -> str | None:
        return fn.text

    def apply(self, template: str | None, name: str, args: list[str]) -> str:
        return template.format(*args) if template else f"{name}({', '.join(args)})"

    def reduce(self, name: str, letter: str, body: str, mask: str | None, at: str | None) -> str:
        where = "" if mask is None else f"; {mask}"
        entry = "" if at is None or at == letter else f"[{letter}={at}]"
        return f"{name}_{letter}({body}{where}){entry}"

    # ---- statements

    def law(self, left: str, mean: str, given: bool) -> str:
        return f"{left}{' | p°' if given else ''} ~ N({mean}, ·)"

    def covariance(self, left: str, right: str, given: bool, value: str) -> str:
        return f"Cov({left}, {right}{' | p°' if given else ''}) = {value}"

    def split(self, left: str, shared: str, size: str, letter: str, member: str) -> list[str]:
        """V = shared + H^{-1} Sum_a V_a, and E V^2 = (E V)^2 + Var(V_a) / H."""
        plus = f"{shared} + " if shared else ""
        return [
            f"V := Var({left} | p°) = {plus}{size}^{{-1}} Σ_{letter} V_{letter}, V_{letter} = {member}",
            f"E V² = (E V)² + Var(V_{letter}) / {size}",
        ]

    def regression(self, left: str, known: list[str]) -> str:
        return f"{left} | p° is Gaussian, by regression on {', '.join(known)} with the kernel k"

    def kernel(self, left: str, right: str, value: str) -> str:
        return f"k({left}, {right}) = {value}"

    def equation(self, left: str, right: str) -> str:
        return f"{left} = {right}"


class Latex(Text):
    """LaTeX, without the dollars."""

    times = r"\, "

    def number(self, value: Number) -> str:
        if isinstance(value, Fraction):
            return rf"\tfrac{{{value.numerator}}}{{{value.denominator}}}"
        return super().number(value)

    def parenthesised(self, text: str) -> str:
        return rf"\left({text}\right)"

    def name(self, name: str) -> str:
        if name == "π":
            return r"\pi"
        if name.startswith("sigma_"):
            return rf"\sigma_{{{self.word(name[6:])}}}"
        return self.word(name)

    def word(self, name: str) -> str:
        head, *rest = name.split("_", 1)
        letters = head.rstrip("0123456789")
        sub = head[len(letters) :] + ("," if rest and head != letters else "") + (rest[0] if rest else "")
        body = letters if len(letters) == 1 else rf"\mathrm{{{letters}}}"
        return body + (f"_{{{sub}}}" if sub else "").replace("_", "_", 1)

    def symbol(self, name: str, kind: t.Kind, indices: tuple[str, ...]) -> str:
        if kind == "vector":
            return f"Z^{{{self.subscripted(name, indices)}}}"
        mark = r"^{\circ}" if kind == "score" else ""
        base = self.name(name)
        return (f"{{{base}}}" if "_" in base and (mark or indices) else base) + mark + self.under(indices)

    def under(self, indices: tuple[str, ...]) -> str:
        return f"_{{{','.join(indices)}}}" if indices else ""

    def subscripted(self, name: str, indices: tuple[str, ...]) -> str:
        base = self.name(name)
        return (f"{{{base}}}" if "_" in base and indices else base) + self.under(indices)

    def kronecker(self, left: str, right: str) -> str:
        return rf"\delta_{{{left},{right}}}"

    def relation(self, relation: str, left: str, right: str) -> str:
        sign = {"!=": r"\ne", "<=": r"\le"}.get(relation, relation)
        return rf"\mathbf{{1}}_{{{left} {sign} {right}}}"

    def mean(self, inner: str, given: bool) -> str:
        return rf"\mathbb{{E}}\left[{inner}" + (r" \mid p^{\circ}" if given else "") + r"\right]"

    def product(self, matrix: str, vector: str) -> str:
        return f"Z^{{{matrix} {vector}}}"

    def raised(self, base: str, exponent: Fraction) -> str:
        return f"{{{base}}}^{{{exponent}}}" if "^" in base or "_" in base else f"{base}^{{{exponent}}}"

    def sum(self, letters: list[str], body: str) -> str:
        return rf"\sum_{{{','.join(letters)}}} {body}"

    def template(self, fn: Fn) -> str | None:
        return fn.latex

    def apply(self, template: str | None, name: str, args: list[str]) -> str:
        if template:
            return template.format(*args)
        return rf"\operatorname{{{name}}}\left({', '.join(args)}\right)"

    def quotient(self, top: t.Tree, bottom: t.Tree) -> tuple[str, int]:
        return rf"\frac{{{self(top)}}}{{{self(bottom)}}}", ATOM

    def power(self, base: t.Tree, exponent: Fraction) -> str:
        if exponent == Fraction(1, 2):
            return rf"\sqrt{{{self(base)}}}"
        return super().power(base, exponent)

    def reduce(self, name: str, letter: str, body: str, mask: str | None, at: str | None) -> str:
        where = "" if mask is None else rf";\, {mask}"
        entry = "" if at is None or at == letter else rf"\big|_{{{letter}={at}}}"
        return rf"\operatorname{{{name}}}_{{{letter}}}\left({body}{where}\right){entry}"

    def split(self, left: str, shared: str, size: str, letter: str, member: str) -> list[str]:
        plus = f"{shared} + " if shared else ""
        average = rf"{size}^{{-1}} \sum_{{{letter}}} V_{{{letter}}}, \quad V_{{{letter}}} = {member}"
        return [
            rf"V := \operatorname{{Var}}({left} \mid p^{{\circ}}) = {plus}{average}",
            rf"\mathbb{{E}} V^{{2}} = (\mathbb{{E}} V)^{{2}} + \operatorname{{Var}}(V_{{{letter}}}) / {size}",
        ]

    def regression(self, left: str, known: list[str]) -> str:
        return (
            rf"{left} \mid p^{{\circ}} \text{{ is Gaussian, by regression on }} {', '.join(known)} \text{{ with the kernel }} k"
        )

    def law(self, left: str, mean: str, given: bool) -> str:
        return left + (r" \mid p^{\circ}" if given else "") + rf" \sim \mathcal{{N}}({mean}, \cdot)"

    def covariance(self, left: str, right: str, given: bool, value: str) -> str:
        condition = r" \mid p^{\circ}" if given else ""
        return rf"\operatorname{{Cov}}({left}, {right}{condition}) = {value}"
