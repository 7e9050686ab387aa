"""Listings: golden texts, letters that must not clash, and text that reads back as the program it was printed from."""

import html as markup
from fractions import Fraction
from typing import Any

import pytest

from netsor import functions
from netsor.binding import param, table
from netsor.functions import clip, hardmax, max_over, mean_over, relu, rmsnorm, softmax, sqrt, sum_over, tanh, top_k
from netsor.ir import Index, Plate, Term, distinct, lift
from netsor.listing import html, lines, listing, statement, window
from netsor.names import Names
from netsor.rules import dot, matrix, mean, vector
from netsor.walks import generic

TOKEN, HEAD = Plate("token", 4), Plate("head", 2)
i, j, k = TOKEN.indices("i j k")
a = HEAD.index("a")


def attention(token: Plate = TOKEN, head: Plate = HEAD) -> dict[str, Term]:
    i, j = token.indices("i j")
    a = head.index("a")
    WQ, WK, WV, WO = (matrix(f"W{r}", a) for r in "QKVO")
    x = clip(100.0)(matrix("Win", i) @ vector("h"))
    q, k, v = WQ @ x, WK @ x[j], WV @ x[j]
    p = dot(q, k)
    A = softmax(p, over=j)
    o = WO @ sum_over(A * v, j)
    y = sum_over(o, a) / sqrt(head.size)
    return {"x": x, "q": q, "k": k, "v": v, "p": p, "A": A, "o": o, "y": y}


def deep(layers: int) -> dict[str, Term]:
    """Residual layers: 2 (attention) times 4 (normalised perceptron) times as many paths with every layer."""
    h = vector("x", i)
    named = {}
    for layer in range(layers):
        WQ, WK, WV, W1, W2 = (matrix(f"{r}{layer}") for r in ("WQ", "WK", "WV", "W1", "W2"))
        A = softmax(dot(WQ @ h, WK @ h[j]), over=j, where=j <= i)
        h = h + sum_over(A * (WV @ h[j]), j)
        h = h + W2 @ relu(W1 @ rmsnorm(h))
        named[f"h{layer}"] = h
    return named


def right(term: Term, **variables: Term) -> str:
    """How a term is written when only the variables given have names."""
    return statement(term, Names(variables), name="it").partition(" = ")[2]


# ---------------------------------------------------------------------------------------------------------- golden


def test_attention() -> None:
    assert (
        listing("attention", attention())
        == """\
attention  (token: 4, head: 2)
  x[i] = clip[100](Win[i] @ h)
  q[a,i] = WQ[a] @ x[i]
  k[a,j] = WK[a] @ x[j]
  v[a,j] = WV[a] @ x[j]
  p[a,i,j] = dot(q[a,i], k[a,j])
  A[a,i,j] = softmax(p[a,i,j], over=j)
  o[a,i] = WO[a] @ sum_over(A[a,i,j] * v[a,j], j)
  y[i] = sum_over(o[a,i], a) / sqrt(head.size)"""
    )


def test_attention_with_only_its_output_named() -> None:
    """x is used three times and gets a name; the letters of sums are the user's, or initials of plates, with primes."""
    tokens_and_heads = attention(Plate("token"), Plate("head"))
    assert listing("attention", {"y": tokens_and_heads["y"]}).splitlines() == [
        "attention  (token: ?, head: ?)",
        "  t1[i] = clip[100](Win[i] @ h)",
        "  y[i] = sum_over(WO[h'] @ sum_over("
        "softmax(dot(WQ[h'] @ t1[i], WK[h'] @ t1[i']), over=i') * (WV[h'] @ t1[i']), i'), h') / sqrt(head.size)",
    ]


def test_perceptron_without_plates() -> None:
    x, W1, W2 = vector("x"), matrix("W1"), matrix("W2")
    g = W1 @ x
    assert (
        listing("perceptron", {"x": x, "g": g, "r": mean(relu(g)), "y": W2 @ (relu(g) - mean(relu(g))) + 1})
        == """\
perceptron
  x = vector("x")
  g = W1 @ x
  r = mean(relu(g))
  y = W2 @ (relu(g) - r) + 1"""
    )


def test_masks_parameters_and_tables() -> None:
    x = vector("x", i)
    beta, slope = param("beta"), table("slope", a)
    p = dot(matrix("WQ", a) @ x, matrix("WK", a) @ x[j], where=j <= i)
    A = softmax(beta * p - slope * (i - j), over=j, where=(j <= i) & (distinct(i, j) | (j < 3)))
    assert (
        listing("alibi", {"p": p, "A": A, "near": sum_over(A, j, where=~distinct(i, j))})
        == """\
alibi  (token: 4, head: 2)
  p[a,i,j] = dot(WQ[a] @ x[i], WK[a] @ x[j], where=j <= i)
  A[a,i,j] = softmax(beta * p[a,i,j] - slope[a] * (i - j), over=j, where=(j <= i) & (distinct(i, j) | (j < 3)))
  near[a,i] = sum_over(A[a,i,j], j, where=~distinct(i, j))"""
    )


def test_recurrence_with_members_of_an_input() -> None:
    """A variable that stands at a member is a name for what is used at that member."""
    step = Plate("step", 3)
    W, U, x = matrix("W"), matrix("U"), vector("x", step.index("s"))
    h1 = tanh(U @ x[0])
    pre = W @ h1 + U @ x[1]
    assert (
        listing("rnn", {"h1": h1, "h2": tanh(pre), "p": dot(vector("v"), pre)})
        == """\
rnn  (step: 3)
  h1 = tanh(U @ x[0])
  t1 = W @ h1 + U @ x[1]
  h2 = tanh(t1)
  p = dot(v, t1)"""
    )


# ----------------------------------------------------------------------------------------------------------- names


def test_instances_of_a_variable() -> None:
    p = attention()["p"]
    names = Names({"p": p})
    assert names.of(p) == ("p", (a, i, j))
    assert names.of(p[0, j, j]) == ("p", (*p[0, j, j].slots,))
    assert names.of(p.args[0]) is None
    assert names.variable(p.family) == "p"


def test_a_special_name_is_not_the_general_one() -> None:
    p = attention()["p"]
    names = Names({"d": p[0, i, i]})
    assert names.of(p[0, k, k]) == ("d", (k,))
    assert names.of(p[0, i, j]) is None
    assert names.of(p[1, i, i]) is None


def test_aliases_rest_on_the_more_general_or_the_earlier() -> None:
    x = relu(matrix("W") @ vector("x0", i))
    assert [text for text, _ in lines({"first": x[0], "x": x, "y": x, "last": x[3]})] == [
        "first = x[0]",
        "x[i] = relu(W @ x0[i])",
        "y[i] = x[i]",
        "last = x[3]",
    ]


def test_objects_called_like_a_variable_are_told_apart() -> None:
    h = relu(matrix("h", a) @ vector("h"))
    assert listing("one", {"h": h}).endswith('h[a] = relu(matrix("h", a) @ vector("h"))')
    assert right(param("h") + table("h", i), h=h) == 'param("h") + table("h", i)'


def test_automatic_names_differ_from_those_of_the_user() -> None:
    t1, t2 = vector("t1"), matrix("t2")
    g = tanh(relu(t2 @ t1))
    assert [text for text, _ in lines({"t3": g * g})] == ["t4 = tanh(relu(t2 @ t1))", "t3 = t4 * t4"]


def test_what_is_short_is_written_again() -> None:
    x = tanh(matrix("V") @ vector("h"))
    g = matrix("W") @ x
    assert [text for text, _ in lines({"x": x, "p": dot(g, g)})] == ["x = tanh(V @ h)", "p = dot(W @ x, W @ x)"]


# --------------------------------------------------------------------------------------------------------- letters


def test_a_bound_letter_differs_from_free_ones() -> None:
    x = vector("x", i)
    p = dot(matrix("WQ") @ x, matrix("WK") @ x[j])
    y = sum_over(p, i)
    assert right(y, p=p) == "sum_over(p[i,j], i)"
    assert right(y[i], p=p) == "sum_over(p[j,i], j)"
    assert right(x[j] * sum_over(sum_over(p, i), j), p=p) == "x[j] * sum_over(sum_over(p[i',i], i'), i)"
    assert right(sum_over(softmax(p, over=j) * y, j), p=p) == "sum_over(softmax(p[i,j], over=j) * sum_over(p[i',j], i'), j)"


def test_the_entry_kept_by_a_softmax() -> None:
    x = vector("x", i)
    p = dot(matrix("WQ") @ x, matrix("WK") @ x[j])
    A = softmax(p, over=j)
    assert right(A[i, k], p=p) == "softmax(p[i,k], over=k)"
    assert right(A[i, 0], p=p) == "softmax(p[i,j], over=j)[j=0]"
    assert right(A[i, i], p=p) == "softmax(p[i,j], over=j)[j=i]"
    assert right(softmax(p, over=i)[j, i], p=p) == "softmax(p[j,i], over=j)"


def test_letters_of_interpreters_are_never_shown() -> None:
    variables = attention()
    names = Names(variables)
    for name, term in variables.items():
        assert statement(generic(term.family), names) == statement(term, names, name)
    assert statement(generic(variables["q"].family), Names({})) == "WQ[h] @ clip[100](Win[t] @ h)"
    shared = variables["p"].at({j: Index("@0", TOKEN), i: Index("#0", TOKEN)})
    assert statement(shared, names) == "p[a,i,j] = dot(q[a,i], k[a,j])"


def test_letter() -> None:
    names = Names({"x": vector("x", i, j), "h": vector("h")})
    assert names.letter(TOKEN, set()) == "i"
    assert names.letter(TOKEN, {"i"}) == "j"
    assert names.letter(TOKEN, {"i", "j"}) == "i'"
    assert names.letter(Plate("expert"), {"e"}) == "e'"
    assert names.letter(HEAD, set()) == "h'"  # h is a vector


# ------------------------------------------------------------------------------------------------------- operators

x, y, z = vector("x"), vector("y"), vector("z")
W, V = matrix("W"), matrix("V")


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (x + y - z, "x + y - z"),
        (x - (y + z), "x - (y + z)"),
        (x * (y + z) / 2, "x * (y + z) / 2"),
        (x / (y * z), "x / (y * z)"),
        (-x, "-x"),
        (-(x + y), "-(x + y)"),
        (-x * y, "-x * y"),
        (-(x * y), "-(x * y)"),
        (-(x**2), "-x**2"),
        ((-x) ** 2, "(-x)**2"),
        (x ** (y**z), "x**y**z"),
        ((x**y) ** z, "(x**y)**z"),
        (x**-1, "x**-1"),
        (lift(-2) ** x, "(-2)**x"),
        (Fraction(1, 2) * x, "1/2 * x"),
        (x ** Fraction(1, 2), "x**(1/2)"),
        (0.25 * x, "0.25 * x"),
        (1e-5 + x, "1e-05 + x"),
        (abs(x - 1), "abs(x - 1)"),
        (W @ (V @ x), "W @ (V @ x)"),
        (W @ (x + y), "W @ (x + y)"),
        (W @ x * 2, "W @ x * 2"),
        (2 * (W @ x), "2 * (W @ x)"),
        (mean(x * y), "mean(x * y)"),
        (max_over(vector("e", i), i), "max_over(e[t], t)"),
        (mean_over(vector("e", i), i), "sum_over(e[t], t) / token.size"),
        (hardmax(vector("e", i), over=i), "top_k[1](e[i], over=i)"),
        (top_k(vector("e", i), 2, over=i, where=i < 3), "top_k[2](e[i], over=i, where=i < 3)"),
    ],
)
def test_operators(term: Term, text: str) -> None:
    assert right(term) == text


def test_exact_numbers() -> None:
    sympy = pytest.importorskip("sympy")
    assert right(sympy.sqrt(2) * x) == "(sqrt(2)) * x"


# ---------------------------------------------------------------------------------------------- as long as the graph


@pytest.mark.parametrize("named", [True, False])
def test_many_layers(named: bool) -> None:
    """A tree of the last layer would have more than 8^24 leaves."""
    layers = deep(24)
    text = listing("deep", layers if named else {"y": layers["h23"]})
    assert len(text) < 24 * 400
    assert "#" not in text
    assert "@0" not in text
    assert "..." not in text


def test_a_long_chain_is_cut_into_lines() -> None:
    g = vector("x")
    for _ in range(3000):
        g = relu(W @ g)
    texts = [text for text, _ in lines({"g": g})]
    assert len(texts) > 50
    assert max(map(len, texts)) < 400


def test_a_statement_alone_is_cut_off() -> None:
    """A term of another program, whose shared pieces have no names here."""
    text = statement(deep(24)["h23"], Names({"x": x}))
    assert "..." in text
    assert len(text) < 5000


# --------------------------------------------------------------------------------------------------- reading it back


def test_the_text_is_the_program() -> None:
    """Every statement, evaluated as Python, gives the term that it was written for."""
    x, V, K, b, c = vector("x", i), matrix("V", a), matrix("K"), param("b"), table("c", a)
    key = K @ x[j]
    p = dot(V @ x, key, where=j <= i)
    s = b * p + c * (i - j) - (-p) ** 2 / (p - (1 - p))
    A = softmax(s, over=j, where=(j <= i) & ~(distinct(i, j) & (j < 2)) | (i <= 1))
    m = mean_over(A * (V @ x[j]), j, where=j <= i)
    y = rmsnorm(tanh(m) - mean(tanh(m)))
    z = y[j] + max_over(p, j)[0, k] * sum_over(p[a, i, k], a, k)
    variables = {"key": key, "p": p, "A": A, "y": sum_over(y, a, i), "z": z}
    scope: dict[str, Any] = {name: getattr(functions, name) for name in functions.__all__}
    scope |= {"dot": dot, "mean": mean, "distinct": distinct, "token": TOKEN, "head": HEAD}
    scope |= variables | {"x": x, "V": V, "K": K, "b": b, "c": c}
    scope |= {str(letter): letter for letter in (a, i, j, k)} | {f"{letter}_": letter.prime for letter in (a, i, j, k)}
    for text, _ in lines(variables):
        left, _, written = text.replace("'", "_").partition(" = ")
        name = left.partition("[")[0]
        scope[name] = eval(written, scope)
        assert scope[name] == variables.get(name, scope[name]), text


# ------------------------------------------------------------------------------------------------- window and html


def test_window() -> None:
    variables = attention()
    assert window(variables, variables["p"], around=1) == (
        "  v[a,j] = WV[a] @ x[j]\n> p[a,i,j] = dot(q[a,i], k[a,j])\n  A[a,i,j] = softmax(p[a,i,j], over=j)"
    )
    assert window(variables, generic(variables["x"].args[0].family), around=0) == "> x[i] = clip[100](Win[i] @ h)"
    assert window(variables, variables["y"], around=0).startswith("> y[i]")
    assert window(variables, dot(x, y)) == ""


def test_window_on_an_automatic_name() -> None:
    g = tanh(relu(W @ x))
    shown = window({"y": g + g}, g)
    assert shown == "> t1 = tanh(relu(W @ x))\n  y = t1 + t1"
    assert statement(g, Names({"y": g + g})) == "t1 = tanh(relu(W @ x))"


def test_html() -> None:
    variables = {"A": softmax(vector("x", i), over=i, where=i < 2)}
    assert html("one", variables) == f"<pre>{markup.escape(listing('one', variables))}</pre>"
    assert "&lt; 2" in html("one", variables)
