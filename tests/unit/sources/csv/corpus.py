"""Small CSV files as programs in several countries write them, and what they have to become.

Each says what DuckDB's `sniff_csv` takes it for where that is something else, and why we don't.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

_HEADER = "the header, too, is cut into regular fields by the semicolon alone: DuckDB gives it up"
_NAMES = "whole numbers may be names, of years or months: DuckDB lands them as a row"
_SEP = "DuckDB does not count the line among the skipped ones"


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        name: what it shows.
        text: its content.
        columns: its columns with their values.
        delimiter, quote, skip, header, encoding: its dialect.
        notes: what is said of it, without the file's name.
        differs: why our dialect is another one than DuckDB's; empty where it is the same.
        stored: its bytes, where they are not the text in `encoding`.
    """

    name: str
    text: str
    columns: dict[str, list[Any]]
    delimiter: str = ","
    quote: str = '"'
    skip: int = 0
    header: bool = True
    encoding: str = "utf-8"
    notes: tuple[str, ...] = ()
    differs: str = ""
    stored: bytes = b""

    @property
    def content(self) -> bytes:
        """The file."""
        return self.stored or self.text.encode(self.encoding)


def _day(year: int, month: int, day: int) -> date:
    return date(year, month, day)


def _at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


_SEMICOLON = "delimiter ';'"
_TEXT = (
    "column {!r} has numbers with {}: `--column {}` makes numbers of them, without {!r}; it stays "
    "text."
)

CASES = (
    Case("plain", "id,name\n1,Ada\n2,Grace\n", {"id": [1, 2], "name": ["Ada", "Grace"]}),
    Case("crlf", "id,name\r\n1,Ada\r\n", {"id": [1], "name": ["Ada"]}),
    Case(
        "mixed_line_breaks",
        "id,n\r\n1,x\n2,y\r\n",
        {"id": [1, 2], "n": ["x", "y"]},
        differs="DuckDB refuses files with both kinds of line breaks",
    ),
    Case("no_last_line_break", "id,name\n1,Ada", {"id": [1], "name": ["Ada"]}),
    Case("quoted_comma", 'id,n\n1,"x, y"\n2,z\n', {"id": [1, 2], "n": ["x, y", "z"]}),
    Case("quoted_line_break", 'id,n\n1,"x\ny"\n2,z\n', {"id": [1, 2], "n": ["x\ny", "z"]}),
    Case("doubled_quote", 'id,n\n1,"5"" pipe"\n2,z\n', {"id": [1, 2], "n": ['5" pipe', "z"]}),
    Case("all_quoted", '"id","n"\n"1","x"\n"2","y"\n', {"id": [1, 2], "n": ["x", "y"]}),
    Case(
        "excel_german",
        "Name;Umsatz;Datum\r\nMüller;1.234,56;31.12.2023\r\nGroß;-0,50;01.02.2024\r\n",
        {
            "Name": ["Müller", "Groß"],
            "Umsatz": [1234.56, -0.5],
            "Datum": [_day(2023, 12, 31), _day(2024, 2, 1)],
        },
        ";",
        encoding="cp1252",
        notes=("delimiter ';', Windows-1252, decimal comma, thousands '.', dates %d.%m.%Y",),
    ),
    Case(
        "excel_french",
        "Nom;Montant;Date\r\nÉlise;1\u00a0234,56;31/12/2023\r\nZoé;12,00;15/01/2024\r\n",
        {
            "Nom": ["Élise", "Zoé"],
            "Montant": [1234.56, 12.0],
            "Date": [_day(2023, 12, 31), _day(2024, 1, 15)],
        },
        ";",
        encoding="cp1252",
        notes=("delimiter ';', Windows-1252, decimal comma, thousands a space, dates %d/%m/%Y",),
    ),
    Case(
        "narrow_space",
        "Nom;Montant\nA;1\u202f234,5\nB;2\u202f000,0\n",
        {"Nom": ["A", "B"], "Montant": [1234.5, 2000.0]},
        ";",
        notes=("delimiter ';', decimal comma, thousands a space",),
    ),
    Case(
        "excel_brazil",
        "Produto;Preço\nCafé;1.234,50\nAçúcar;7,25\n",
        {"Produto": ["Café", "Açúcar"], "Preço": [1234.5, 7.25]},
        ";",
        notes=("delimiter ';', decimal comma, thousands '.'",),
    ),
    Case(
        "excel_swiss",
        "Konto;Betrag\nA;1'234.50\nB;2'000.00\n",
        {"Konto": ["A", "B"], "Betrag": [1234.5, 2000.0]},
        ";",
        notes=("delimiter ';', decimal point, thousands an apostrophe",),
    ),
    Case(
        "typographic_apostrophe",
        "Konto;Betrag\nA;12\u2019345\nB;900\n",
        {"Konto": ["A", "B"], "Betrag": [12345, 900]},
        ";",
        notes=("delimiter ';', thousands an apostrophe",),
    ),
    Case(
        "american_thousands",
        'item,price\na,"1,234.56"\nb,"2,000.00"\n',
        {"item": ["a", "b"], "price": [1234.56, 2000.0]},
        notes=("decimal point, thousands ','",),
    ),
    Case(
        "american_millions",
        'item,count\na,"1,234,567"\nb,"12"\n',
        {"item": ["a", "b"], "count": [1234567, 12]},
        notes=("thousands ','",),
    ),
    Case(
        "american_groups_in_doubt",
        'item,count\na,"1,234"\nb,"5,678"\n',
        {"item": ["a", "b"], "count": ["1,234", "5,678"]},
        notes=(
            "column 'count' may have a decimal comma or grouped digits: `--decimal` says which; "
            "it stays text.",
        ),
    ),
    Case(
        "comma_in_doubt_settled_elsewhere",
        "a;b\n1,234;0,5\n5,678;1,25\n",
        {"a": [1.234, 5.678], "b": [0.5, 1.25]},
        ";",
        notes=("delimiter ';', decimal comma",),
        differs=_HEADER,
    ),
    Case(
        "points_in_doubt_settled_elsewhere",
        "stück;preis\n1.234;1.234,56\n5.678;2,00\n",
        {"stück": [1234, 5678], "preis": [1234.56, 2.0]},
        ";",
        notes=("delimiter ';', thousands '.', decimal comma",),
    ),
    Case(
        "points_in_doubt_stay_text",
        "a;b\n1.234;0,5\n5.678;1,25\n",
        {"a": ["1.234", "5.678"], "b": [0.5, 1.25]},
        ";",
        notes=(
            "delimiter ';', decimal comma",
            "column 'a' may have grouped digits: `--thousands` or `--decimal` says so; "
            "it stays text.",
        ),
    ),
    Case(
        "points_alone_are_decimal",
        "a;b\n1.234;x\n5.678;y\n",
        {"a": [1.234, 5.678], "b": ["x", "y"]},
        ";",
        notes=(
            _SEMICOLON,
            "column 'a' is read with a decimal point; if points group its digits, `--thousands .` "
            "says so.",
        ),
    ),
    Case(
        "points_in_several_groups",
        "a;b\n1.234.567;x\n999;y\n",
        {"a": [1234567, 999], "b": ["x", "y"]},
        ";",
        notes=("delimiter ';', thousands '.'",),
    ),
    Case(
        "decimal_comma_quoted_in_a_comma_file",
        'a,b\n"1,5",x\n"2,25",y\n',
        {"a": ["1,5", "2,25"], "b": ["x", "y"]},
        notes=(
            "column 'a' may have a decimal comma or grouped digits: `--decimal` says which; "
            "it stays text.",
        ),
    ),
    Case(
        "decimal_commas_everywhere",
        "a;b\n1,5;2,5\n3,5;4,5\n",
        {"a": [1.5, 3.5], "b": [2.5, 4.5]},
        ";",
        notes=("delimiter ';', decimal comma",),
        differs=_HEADER,
    ),
    Case(
        "bank_statement",
        "Kontonummer:;DE12 3456\nZeitraum:;Januar 2024\n\nBuchung;Betrag;Zweck\n"
        "31.01.2024;-12,50;Miete\n15.01.2024;2.000,00;Gehalt\n",
        {
            "Buchung": [_day(2024, 1, 31), _day(2024, 1, 15)],
            "Betrag": [-12.5, 2000.0],
            "Zweck": ["Miete", "Gehalt"],
        },
        ";",
        skip=3,
        notes=("delimiter ';', 3 lines skipped, dates %d.%m.%Y, decimal comma, thousands '.'",),
    ),
    Case(
        "title",
        "Sales 2024\nid,name\n1,Ada\n2,Grace\n",
        {"id": [1, 2], "name": ["Ada", "Grace"]},
        skip=1,
        notes=("1 line skipped",),
    ),
    Case(
        "title_and_blank_lines",
        "Sales 2024\n\n\nid,name\n1,Ada\n2,Grace\n",
        {"id": [1, 2], "name": ["Ada", "Grace"]},
        skip=3,
        notes=("3 lines skipped",),
    ),
    Case(
        "blank_lines_above",
        "\n\nid,name\n1,Ada\n2,Grace\n",
        {"id": [1, 2], "name": ["Ada", "Grace"]},
        differs="blank lines before the header are left out without being skipped",
    ),
    Case(
        "comments_above",
        "# made by x\n# on Monday, early\nid,name\n1,Ada\n2,Grace\n",
        {"id": [1, 2], "name": ["Ada", "Grace"]},
        skip=2,
        notes=("2 lines skipped",),
        differs="DuckDB leaves comments out anywhere; we skip those above the header alone",
    ),
    Case("hash_in_header", "#id,name\n1,Ada\n2,Grace\n", {"#id": [1, 2], "name": ["Ada", "Grace"]}),
    Case(
        "sep_line",
        "sep=;\r\nid;name\r\n1;Ada\r\n",
        {"id": [1], "name": ["Ada"]},
        ";",
        skip=1,
        notes=("delimiter ';', 1 line skipped",),
        differs=_SEP,
    ),
    Case(
        "sep_line_with_a_tab",
        "sep=\t\nid\tname\n1\tAda\n",
        {"id": [1], "name": ["Ada"]},
        "\t",
        skip=1,
        notes=("delimiter tab, 1 line skipped",),
        differs=_SEP,
    ),
    Case(
        "sep_line_with_an_odd_one",
        "sep=^\nid^name\n1^Ada\n",
        {"id": [1], "name": ["Ada"]},
        "^",
        skip=1,
        notes=("delimiter '^', 1 line skipped",),
        differs="DuckDB looks for fewer delimiters, even where the file names its own",
    ),
    Case(
        "tabs",
        "id\tname\n1\tAda, B\n2\tC; D\n",
        {"id": [1, 2], "name": ["Ada, B", "C; D"]},
        "\t",
        notes=("delimiter tab",),
    ),
    Case(
        "pipes",
        "id|name\n1|Ada\n2|Grace\n",
        {"id": [1, 2], "name": ["Ada", "Grace"]},
        "|",
        notes=("delimiter '|'",),
    ),
    Case("one_column", "name\nAda\nGrace\n", {"name": ["Ada", "Grace"]}),
    Case("one_column_of_numbers", "n\n1\n2\n", {"n": [1, 2]}),
    Case(
        "one_column_of_prose",
        "note\na;b\nc\nd;e\n",
        {"note": ["a;b", "c", "d;e"]},
    ),
    Case("single_row", "id,name\n1,Ada\n", {"id": [1], "name": ["Ada"]}),
    Case(
        "single_record",
        "1,Ada\n",
        {"1": [], "Ada": []},
        differs="with nothing to compare it to, the only record stays the header",
    ),
    Case("header_only", "id,name\n", {"id": [], "name": []}),
    Case("header_only_semicolon", "id;name\n", {"id": [], "name": []}, ";", notes=(_SEMICOLON,)),
    Case(
        "headerless_text",
        "Ada,London\nGrace,New York\n",
        {"Ada": ["Grace"], "London": ["New York"]},
    ),
    Case(
        "headerless_numbers",
        "1,2.5,3\n4,5.5,6\n",
        {"column_1": [1, 4], "column_2": [2.5, 5.5], "column_3": [3, 6]},
        header=False,
        notes=("no header",),
    ),
    Case(
        "headerless_with_text",
        "1,Ada,2024-01-31\n2,Grace,2024-02-01\n",
        {
            "column_1": [1, 2],
            "column_2": ["Ada", "Grace"],
            "column_3": [_day(2024, 1, 31), _day(2024, 2, 1)],
        },
        header=False,
        notes=("no header",),
    ),
    Case(
        "headerless_one_column",
        "17\n23\n5\n",
        {"column_1": [17, 23, 5]},
        header=False,
        notes=("no header",),
    ),
    Case(
        "headerless_with_duplicates",
        "1,1,x\n2,3,y\n",
        {"column_1": [1, 2], "column_2": [1, 3], "column_3": ["x", "y"]},
        header=False,
        notes=("no header",),
    ),
    Case(
        "years_as_names",
        "land,2019,2020\nDE,5,7\nNL,1,2\n",
        {"land": ["DE", "NL"], "2019": [5, 1], "2020": [7, 2]},
        differs=_NAMES,
    ),
    Case(
        "months_as_names",
        "region,1,2,3,4\nNorth,5,6,7,8\nSouth,5,6,7,8\n",
        {"region": ["North", "South"], **{str(n): [n + 4, n + 4] for n in range(1, 5)}},
        differs=_NAMES,
    ),
    Case(
        "dates_as_names",
        "place,1/22/20,1/23/20\nA,0,1\nB,2,3\n",
        {"place": ["A", "B"], "1/22/20": [0, 2], "1/23/20": [1, 3]},
    ),
    Case(
        "utf16_with_mark",
        "id\tname\n1\tÄda\n",
        {"id": [1], "name": ["Äda"]},
        "\t",
        encoding="utf-16",
        notes=("delimiter tab, UTF-16",),
    ),
    Case(
        "utf16_big_endian_with_mark",
        "id,name\n1,Äda\n",
        {"id": [1], "name": ["Äda"]},
        encoding="utf-16",
        stored=b"\xfe\xff" + "id,name\n1,Äda\n".encode("utf-16-be"),
        notes=("UTF-16",),
    ),
    Case(
        "utf16_without_mark",
        "id,name\n1,Äda\n",
        {"id": [1], "name": ["Äda"]},
        encoding="utf-16-le",
        notes=("UTF-16",),
    ),
    Case(
        "utf16_big_endian",
        "id;name\n1;Äda\n",
        {"id": [1], "name": ["Äda"]},
        ";",
        encoding="utf-16-be",
        notes=("delimiter ';', UTF-16",),
    ),
    Case("utf8_with_mark", "id,name\n1,Äda\n", {"id": [1], "name": ["Äda"]}, encoding="utf-8-sig"),
    Case(
        "windows_euro",
        "item,price\nCafé,5 €\nThé,6 €\n",
        {"item": ["Café", "Thé"], "price": ["5 €", "6 €"]},
        encoding="cp1252",
        notes=("Windows-1252", _TEXT.format("price", "'€'", "'price=decimal(12,2)'", "€")),
    ),
    Case(
        "apostrophes_in_text",
        "id,text\n1,it's\n2,'twas\n3,rock 'n' roll\n",
        {"id": [1, 2, 3], "text": ["it's", "'twas", "rock 'n' roll"]},
    ),
    Case(
        "quotes_that_are_none",
        'id;size\n1;"5 inch\n2;"6 inch\n3;"7 inch\n',
        {"id": [1, 2, 3], "size": ['"5 inch', '"6 inch', '"7 inch']},
        ";",
        quote="",
        notes=("delimiter ';', no quotes",),
    ),
    Case(
        "inches",
        'id,size\n1,5" pipe\n2,6" pipe\n',
        {"id": [1, 2], "size": ['5" pipe', '6" pipe']},
    ),
    Case(
        "semicolons_in_quotes",
        'id,tags\n1,"a;b"\n2,"c;d"\n',
        {"id": [1, 2], "tags": ["a;b", "c;d"]},
    ),
    Case(
        "semicolons_in_text",
        "id,tags\n1,a;b\n2,c;d\n",
        {"id": [1, 2], "tags": ["a;b", "c;d"]},
    ),
    Case(
        "commas_in_text_of_a_semicolon_file",
        "id;text\n1;hello, you\n2;well, well\n",
        {"id": [1, 2], "text": ["hello, you", "well, well"]},
        ";",
        notes=(_SEMICOLON,),
    ),
    Case(
        "json_in_fields",
        'id,data\n1,"{""a"": 1, ""b"": [2, 3]}"\n2,"{}"\n',
        {"id": [1, 2], "data": ['{"a": 1, "b": [2, 3]}', "{}"]},
    ),
    Case(
        "times",
        "id,at\n1,12:30:00\n2,9:05:00\n",
        {"id": [1, 2], "at": ["12:30:00", "9:05:00"]},
    ),
    Case(
        "trailing_delimiter",
        "id;name;\n1;Ada;\n2;Grace;\n",
        {"id": [1, 2], "name": ["Ada", "Grace"]},
        ";",
        notes=(_SEMICOLON,),
    ),
    Case(
        "currency",
        "item,price\na,$5\nb,EUR 6\n",
        {"item": ["a", "b"], "price": ["$5", "EUR 6"]},
        notes=("column 'price' has numbers with '$', 'EUR', several units; it stays text.",),
    ),
    Case(
        "percentages",
        "item;share\na;5,5 %\nb;7 %\n",
        {"item": ["a", "b"], "share": ["5,5 %", "7 %"]},
        ";",
        notes=(_SEMICOLON, _TEXT.format("share", "'%'", "share=number", "%")),
    ),
    Case("leading_zeros", "zip,n\n01234,1\n99999,2\n", {"zip": ["01234", "99999"], "n": [1, 2]}),
    Case(
        "phone_numbers",
        "name;phone\nA;612 345 678\nB;712 345 679\n",
        {"name": ["A", "B"], "phone": ["612 345 678", "712 345 679"]},
        ";",
        notes=(_SEMICOLON,),
    ),
    Case(
        "international_phone_numbers",
        "name,phone\nA,+49 30 1234\nB,+31201234567\n",
        {"name": ["A", "B"], "phone": ["+49 30 1234", "+31201234567"]},
    ),
    Case(
        "addresses_of_machines",
        "host;ip\na;10.100.200.300\nb;192.168.1.10\n",
        {"host": ["a", "b"], "ip": ["10.100.200.300", "192.168.1.10"]},
        ";",
        notes=(_SEMICOLON,),
    ),
    Case(
        "iso_dates",
        "id,d\n1,2024-01-31\n2,2024-02-01\n",
        {"id": [1, 2], "d": [_day(2024, 1, 31), _day(2024, 2, 1)]},
    ),
    Case(
        "day_first",
        "id,d\n1,31/01/2024\n2,01/02/2024\n",
        {"id": [1, 2], "d": [_day(2024, 1, 31), _day(2024, 2, 1)]},
        notes=("dates %d/%m/%Y",),
    ),
    Case(
        "month_first_with_times",
        "id,d\n1,01/31/2024 9:05\n2,02/01/2024 14:30:15\n",
        {"id": [1, 2], "d": [_at(2024, 1, 31, 9, 5), _at(2024, 2, 1, 14, 30, 15)]},
        notes=("dates %m/%d/%Y",),
    ),
    Case(
        "year_first",
        "id,d\n1,2024/01/31\n2,2024/2/1\n",
        {"id": [1, 2], "d": [_day(2024, 1, 31), _day(2024, 2, 1)]},
        notes=("dates %Y/%m/%d",),
    ),
    Case(
        "days_in_doubt",
        "id,d\n1,03/04/2023\n2,05/06/2023\n",
        {"id": [1, 2], "d": ["03/04/2023", "05/06/2023"]},
        notes=(
            "column 'd' has dates that begin with the day or the month: `--date-format` says "
            "which, such as %d/%m/%Y; it stays text.",
        ),
    ),
    Case(
        "years_of_two_digits",
        "id,d\n1,31.12.23\n2,30.11.23\n",
        {"id": [1, 2], "d": ["31.12.23", "30.11.23"]},
        notes=(
            "column 'd' has dates with two digits for the year: `--date-format %d.%m.%y` reads "
            "them; it stays text.",
        ),
    ),
    Case(
        "days_that_do_not_exist",
        "id,d\n1,31/02/2023\n2,15/01/2023\n",
        {"id": [1, 2], "d": ["31/02/2023", "15/01/2023"]},
        notes=(
            "column 'd' looks like dates, but not all of its values can be read as such in "
            "one way; it stays text.",
        ),
    ),
    Case(
        "versions",
        "name,version\na,1.2.3\nb,10.20.30\n",
        {"name": ["a", "b"], "version": ["1.2.3", "10.20.30"]},
    ),
)
