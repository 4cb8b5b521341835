"""Programs broken at random compile or give one clear error; nothing else escapes, whatever the text."""

from __future__ import annotations

import ast
import copy
import re

from hypothesis import event, given, settings
from hypothesis import strategies as st

from slubviz.hw.isa import WORDS, Op
from slubviz.model.lang import KernelLanguageError, SourceFile, compile_program
from tests.lang.helpers import TARGET
from tests.lang.test_documentation import DOCUMENT

_BLOCK = re.search(r"## A complete example.*?```python\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL)
assert _BLOCK is not None
EXAMPLE = _BLOCK[1]
TOKENS = re.findall(r"\s+|\w+|.", EXAMPLE)
FOREIGN = """
None 3.5 's' [1] (a,b) x.y x[0] NULL -1 1<<63 0 lambda:x range(3) this_cpu(x) per_cpu(caches,9)
sizeof page word ptr[object] array[word,2] counter() option(1,'x') at('next') f(*a) f(k=1) 1<2<3
x[1:2] {1:2} f'{x}' ... é cast(object,x) offsetof(object,next.next) container_of(x,pool,used)
irq_save() cmpxchg(shared.used,1,2) x/0 x//0 x<<99 await(x) (yield) 99999999999999999999999
objects[99] objects objects[0] shared addressof(x) test(1,2)
""".split()


def check(text: str) -> None:
    """The text compiles to a well-formed program, or the error is one line with a place in the text."""
    try:
        program = compile_program([SourceFile("t.py", text)], TARGET)
    except KernelLanguageError as error:
        event("refused")
        problem = error
    else:
        event("compiled")
        operations = {int(op) for op in program.code[::WORDS]}
        assert operations <= {int(op) for op in Op}
        return
    message = str(problem)
    assert "\n" not in message
    assert message.startswith(f"t.py:{problem.line}:{problem.column}: ")
    assert 1 <= problem.line <= text.count("\n") + 1
    assert problem.column >= 1


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_broken_text(data: st.DataObject) -> None:
    tokens = list(TOKENS)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(tokens) - 1))
        tokens[place] = data.draw(st.one_of(st.just(""), st.sampled_from(FOREIGN), st.sampled_from(TOKENS)))
    check("".join(tokens))


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_broken_expressions(data: st.DataObject) -> None:
    """The text stays Python, but one expression is replaced by another."""
    tree = ast.parse(EXAMPLE)
    places = [
        (node, name)
        for node in ast.walk(tree)
        for name, value in ast.iter_fields(node)
        if isinstance(value, ast.expr)
    ]
    known = [copy.deepcopy(node) for node in ast.walk(tree) if isinstance(node, ast.expr)]
    node, name = data.draw(st.sampled_from(places))
    foreign = st.sampled_from(FOREIGN).map(lambda text: ast.parse(text, mode="eval").body)
    setattr(node, name, data.draw(st.one_of(foreign, st.sampled_from(known))))
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
    except ValueError:
        return  # Python itself cannot write such a tree
    check(text)


@settings(deadline=None, max_examples=100)
@given(text=st.text(max_size=80))
def test_any_text_at_all(text: str) -> None:
    check(text)
