"""Encodings that are told by a text, those that are not, and those that are belied by it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lakeport.errors import SourceError
from lakeport.sources.csv.dialect import CsvOptions
from lakeport.sources.input.plain_files import contradicts_encoding, detect_encoding
from tests.unit.sources.file_batch import file_batch


@pytest.mark.parametrize(
    "text",
    [
        "Müller;Straße;Größe;Ägypten;Öl;Übung;Käse-Spätzle",
        "garçon août hôtel L\u2019été \u201ccitation\u201d « guillemets » 5 € \u2013 fin… À NOËL",
        "Ñandú niño ¿Qué? ¡Hola! corazón pingüino; Curaçao Ålesund José-María",
        "São João ações pão órgão àquele avô; Núria català però",
        "perché città è già lunedì; Citroën naïve; Lætitia œuf cœur",
        "Åse Øystein Mælk Rødgrød smørrebrød; Malmö \u201dHej\u201d idé",
        "\u201eWort\u201c \u201awort\u2018 \u203aWort\u2039 \u2039mot\u203a",
        "Võru jõgi; 100°C 5² ½ µm ±3 §5 £5",
    ],
)
def test_western_texts_are_windows_1252(text: str) -> None:
    assert detect_encoding(f"a\n{text}\n".encode("cp1252")) == "cp1252"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("März,Köln", "cp850"),
        ("René,Orleans", "cp437"),
        ("père,mère", "cp850"),
        ("Österreich", "cp850"),
        ("Märzen,Köln", "mac_roman"),
        ("Dvořák,Brno", "cp1250"),
        ("Kovačić,Split", "cp1250"),
        ("Győr,Szűcs", "cp1250"),
    ],
)
def test_letters_of_another_encoding_are_not_taken_for_windows(text: str, encoding: str) -> None:
    assert detect_encoding(f"a,b\n{text}\n".encode(encoding)) == "utf-8"


def test_an_encoding_that_a_text_belies() -> None:
    assert not contradicts_encoding("utf-16-le", "a\n".encode("utf-16-le"))
    assert not contradicts_encoding("utf-16", b"")
    assert not contradicts_encoding("cp1252", b"plain")
    assert not contradicts_encoding("gbk", "联通".encode("gbk"))  # whose bytes are UTF-8 as well
    assert not contradicts_encoding("idna", b"\xc3\xa9")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "cp1252", "cp850"])
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_wrong_encoding_is_refused(tmp_path: Path, encoding: str, name: str) -> None:
    text = "id,name\n1,Zoé\n".encode()
    content = gzip.compress(text) if name.endswith(".gz") else text
    with pytest.raises(SourceError, match=f"is utf-8 text, and not {encoding}") as caught:
        file_batch(tmp_path, content, name=name, csv=CsvOptions(encoding=encoding))
    assert "--encoding" in caught.value.hint
