"""What a prompt and a notebook show of an object."""

import pydoc
from html.parser import HTMLParser

import numpy as np
import pytest

import streamrf as srf

X = np.random.default_rng(0).normal(size=(80, 3))


class Tags(HTMLParser):
    """The tags of a text, and whether each that opens is closed again."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def shown():
    statistics = srf.accumulate(srf.ArraySource(X, X[:, 0] > 0), srf.TreeSketch(n_components=16))
    yield srf.ArraySource(X, X[:, 0])
    yield srf.IteratorSource([(X, X[:, 0])])
    yield statistics
    yield statistics.solve(1.0)
    yield statistics.moments
    yield srf.select(srf.ArraySource(X, X[:, 0] > 0))


@pytest.mark.parametrize("index", range(6))
def test_what_is_shown_is_short_and_has_a_table(index):
    thing = list(shown())[index]
    assert type(thing).__name__ in repr(thing)
    assert len(repr(thing)) < 200
    assert "\n" not in repr(thing)
    text = thing._repr_html_()
    tags = Tags(text)
    assert "table" in tags.seen
    assert not tags.open
    assert all(name in text for name in thing.card())


def test_maps_have_a_table_of_their_settings():
    features = srf.StructuredFourier(srf.Gaussian(0.5), 64)
    assert repr(features) == "StructuredFourier(kernel=Gaussian(gamma=0.5), n_components=64)"
    assert "<table" in features._repr_html_()


def test_a_repr_leaves_a_stream_alone():
    def blocks():
        raise AssertionError("read")

    assert "not looked at" in repr(srf.IteratorSource(blocks))


def test_texts_are_escaped():
    source = srf.ArraySource(X, X[:, 0])
    source.where = "<script>"
    assert "<script>" not in source._repr_html_()


def test_a_prompt_shows_control_characters_and_does_not_obey_them():
    source = srf.ArraySource(X, X[:, 0])
    source.where = "a\x1b[2J\r\nb"
    assert r"from=a\x1b[2J\r\nb" in repr(source)


def test_help_shows_the_public_names_first_and_is_short():
    text = pydoc.render_doc(srf, renderer=pydoc.plaintext)
    assert len(text) < 4500
    assert all(name in text[: text.index("PACKAGE CONTENTS")] for name in srf.__all__)
    assert set(srf.__all__) <= set(dir(srf))
