"""Drawings of a pipeline: the same boxes and arrows as Mermaid, DOT and SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from pipelines.base.variables import Variables
from pipelines.config.loader import load
from pipelines.config.validate import examine, validate
from pipelines.inspect.graph import as_dot, as_mermaid, as_svg, graph_of
from tests.unit.pipelines.config.bad_sinks import MERGE, SINK
from tests.unit.pipelines.config.test_validate import GOOD

TEXT = (
    GOOD.replace(SINK, MERGE).replace("on_error: fail", "on_error: dead_letter")
    + "dead_letter: { type: delta, path: /dead }\n"
)


def graph(text=TEXT):
    return graph_of(validate(load(text, "f.yaml", {})))


def test_mermaid():
    assert as_mermaid(graph()) == (
        "flowchart LR\n"
        '    source_raw(["raw<br>orders"])\n'
        '    transform_clean["clean"]\n'
        '    sink_lake[("lake<br>merge by id: /lake")]\n'
        '    dead_letter[("dead letters<br>/dead")]\n'
        "    source_raw --> transform_clean\n"
        "    transform_clean --> sink_lake\n"
        "    source_raw -.-> dead_letter\n"
    )


def test_dot():
    assert as_dot(graph()) == (
        "digraph pipeline {\n"
        "    rankdir=LR;\n"
        '    source_raw [shape=cds, label="raw\\norders"];\n'
        '    transform_clean [shape=box, label="clean"];\n'
        '    sink_lake [shape=cylinder, label="lake\\nmerge by id: /lake"];\n'
        '    dead_letter [shape=cylinder, label="dead letters\\n/dead"];\n'
        "    source_raw -> transform_clean;\n"
        "    transform_clean -> sink_lake;\n"
        "    source_raw -> dead_letter [style=dashed];\n"
        "}\n"
    )


def test_svg_has_a_box_for_every_node_and_a_line_for_every_arrow():
    drawn = graph()
    root = ET.fromstring(as_svg(drawn))
    tags = [each.tag.rpartition("}")[2] for each in root]

    assert tags.count("rect") == len(drawn.nodes) == 4
    assert tags.count("path") == len(drawn.edges) == 3
    assert {"raw", "clean", "lake", "dead letters"} <= {each.text for each in root}


def test_a_step_behind_another_stands_further_right():
    text = GOOD.replace(
        "sinks:", "  more: { inputs: [clean], sql: select * from clean }\nsinks:"
    ).replace("inputs: [clean], path", "inputs: [more], path")

    columns = {node.id: node.column for node in graph(text).nodes}

    assert columns == {"source_raw": 0, "transform_clean": 1, "transform_more": 2, "sink_lake": 3}


def test_what_a_file_says_cannot_break_the_drawing():
    text = GOOD.replace("path: /lake", "path: '/a\"<b>&'")

    ET.fromstring(as_svg(graph(text)))
    assert "/a&quot;&lt;b&gt;&amp;" in as_mermaid(graph(text))
    assert 'append: /a\\"<b>&' in as_dot(graph(text))


def test_a_path_with_a_secret_is_a_question_mark():
    text = GOOD.replace("path: /lake", "path: '/${secret:env:KEY}'")
    variables = Variables(env={"KEY": "hunter2"}, with_secrets=False)

    assert "append: ?" in as_mermaid(graph_of(examine(text, "f.yaml", variables).pipeline))


def test_what_is_told_of_a_sink_is_its_last_line_and_all_lines_lie_in_their_boxes():
    drawn = graph_of(validate(load(TEXT, "f.yaml", {})), {"lake": "7 records behind"})

    assert '[("lake<br>merge by id: /lake<br>7 records behind")]' in as_mermaid(drawn)
    root = ET.fromstring(as_svg(drawn))
    boxes = [each for each in root if each.tag.endswith("rect")]
    texts = [int(each.get("y", "0")) for each in root if each.text == "7 records behind"]
    (top,) = texts
    assert any(
        int(box.get("y", "0")) < top < int(box.get("y", "0")) + int(box.get("height", "0"))
        for box in boxes
    )
