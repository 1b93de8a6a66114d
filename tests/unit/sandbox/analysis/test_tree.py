"""The parsing of long scripts, also while other threads run."""

import threading
import time

from headwater.sandbox.analysed_script import AnalysedScript
from headwater.sandbox.analysis.nodes import text_of
from headwater.sandbox.analysis.state import may_keep_state, may_use_flow_object
from headwater.sandbox.analysis.tree import parse


def test_nodes_of_a_long_text_have_their_text_and_place() -> None:
    names = [f"n{i}" for i in range(10_000)]
    script = parse("".join(f"/* 😀é */ let {name};\n" for name in names))
    found = [statement.named_children[0] for statement in script.root.named_children if statement.type != "comment"]
    assert [text_of(declarator) for declarator in found] == names
    assert [script.text_of(declarator) for declarator in found] == names
    assert script.position(found[-1]) == (10_000, 15)


def test_other_threads_go_on_while_a_broken_text_is_read() -> None:
    parser = threading.Thread(target=parse, args=["let a = b" + " as any" * 20_000])
    parser.start()
    turns = 0
    while parser.is_alive():
        time.sleep(0.001)
        turns += 1
    parser.join()
    assert turns > 5


def test_a_script_with_state_need_not_block_without_lookups() -> None:
    text = "let n = 0; function process(r) { return { n: n++ } }"
    assert may_keep_state(parse(text))
    assert not may_use_flow_object(text)
    assert not AnalysedScript.of(text).must_block
