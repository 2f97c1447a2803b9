"""The check that a query reads its tables alone, before Spark analyses or runs it.

Spark's parser makes a tree of plan nodes, expressions, collections and plain values. All of it is
checked, and anything that is not on the lists here is refused: commands, scripts, other tables,
paths, and functions that reach outside, anywhere in the query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakeport.engine.failures import translate_errors
from lakeport.engine.spark.jvm.calls import active_session, java_class
from lakeport.engine.sql.query import frame_of_plan, sql_error_sentence
from lakeport.errors import ConfigError
from lakeport.schema.spark_schema import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QueryTable = TypeVar("QueryTable")
SINGLE_SELECT: Final = "write a single SELECT on `t`; nothing else runs."


@dataclass(frozen=True, slots=True)
class QueryScope:
    """Words of the errors for SQL that is no query of one table, or of a lake's tables.

    Attributes:
        verdict: beginning of the message.
        hint: what to write instead.
    """

    verdict: str
    hint: str


TABLE_SCOPE: Final = QueryScope("this is not one query of the table alone", SINGLE_SELECT)
LAKE_SCOPE: Final = QueryScope(
    "this is not one query of the lake's tables alone",
    "write a single SELECT on the lake's tables, by their names; nothing else runs.",
)

_CATALYST: Final = "org.apache.spark.sql.catalyst."
_EXPRESSIONS: Final = f"{_CATALYST}expressions."

_REFUSED_EXPRESSION: Final = f"{_EXPRESSIONS}FunctionTableSubqueryArgumentExpression"
_COLLECTIONS: Final = ("scala.collection.", "scala.Some", "scala.Tuple")
_VALUES: Final = (
    "java.util.UUID",
    "org.apache.spark.sql.types.",
    "org.apache.spark.sql.util.CaseInsensitiveStringMap",
    "org.apache.spark.unsafe.types.",
    "scala.Enumeration$Val",
    "scala.None$",
    f"{_CATALYST}AliasIdentifier",
    f"{_CATALYST}FunctionIdentifier",
    f"{_EXPRESSIONS}ExprId",
    f"{_EXPRESSIONS}GenericInternalRow",
)


def _fill_pattern(pattern: str, names: str) -> frozenset[str]:
    """Return a pattern filled with each of the names in a text."""
    return frozenset(pattern.format(name) for name in names.split())


_NODES: Final = _fill_pattern(
    _CATALYST + "plans.logical.{}",
    """Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join JoinHint LateralJoin
    LimitAll LocalLimit LocalRelation Offset OneRowRelation Pivot Project Repartition
    RepartitionByExpression Sample SampleMethod$Bernoulli$ SampleMethod$System$ Sort SubqueryAlias
    Union Unpivot UnresolvedHint WithWindowDefinition""",
) | _fill_pattern(
    _CATALYST + "analysis.{}",
    """MultiAlias UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedHaving
    UnresolvedInlineTable UnresolvedOrdinal UnresolvedQualify UnresolvedRegex UnresolvedStar
    UnresolvedStarExceptOrReplace UnresolvedSubqueryColumnAliases UnresolvedTVFAliases""",
)
_GROUPS: Final = _fill_pattern(
    "{}_funcs",
    """agg array bitwise collection conditional conversion csv datetime generator hash json lambda
    map math predicate sketch st string struct url variant vector window""",
)
"""Spark's groups of functions that work on their arguments alone. Functions for Avro, Protobuf and
XML may read a file or an address that an argument names."""

_FUNCTIONS: Final = _fill_pattern(
    "{}",
    """aes_decrypt aes_encrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count
    current_catalog current_database current_path current_schema current_user equal_null
    hll_sketch_estimate hll_union input_file_block_length input_file_block_start input_file_name
    monotonically_increasing_id raise_error session_user spark_partition_id to_xml try_aes_decrypt
    typeof user uuid version""",
)
"""Harmless functions of other groups."""

_TABLE_FUNCTIONS: Final = _fill_pattern(
    "{}",
    """collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
    range sql_keywords stack variant_explode variant_explode_outer""",
)


def query_tables(
    spark: SparkSession,
    find: Callable[[tuple[str, ...]], QueryTable | None],
    read: Callable[[QueryTable], DataFrame],
    sql: str,
    scope: QueryScope,
) -> tuple[DataFrame, list[QueryTable]]:
    """Return the lazy frame of a user's SELECT, and the tables it reads; ConfigError for other SQL.

    Args:
        spark: a session of the query's own, which gets a view for each table.
        find: returns the table of a dotted name; None if the query may not read it.
        read: returns a table's frame; called once the whole query is checked.

    Raises:
        ConfigError: the text is no such query, reaches outside its tables, or Spark can't analyse
            it.
    """
    from pyspark.errors import AnalysisException, ParseException

    # `${env:NAME}` in the text would become the variable's value.
    spark.conf.set("spark.sql.variable.substitute", "false")
    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    with active_session(spark):
        try:
            plan = parser.parsePlan(sql)
        except ParseException as error:
            raise ConfigError(
                f"this is not one query: {sql_error_sentence(error)}", scope.hint
            ) from error
        sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
        checker = _PlanChecker(spark._jvm, scope.verdict, find, case_sensitive=sensitive)
        checker.check(plan, frozenset())
        frames = {name: read(table) for name, table in checker.tables.items()}
        for name, frame in frames.items():
            frame.createOrReplaceTempView(quote_identifier(name))
        with translate_errors():
            try:
                # The checked plan, and not the text, which Spark would parse again.
                found = frame_of_plan(spark, plan)
            except AnalysisException as error:
                raise ConfigError(
                    f"Spark can't run the query: {sql_error_sentence(error)}",
                    _list_columns(frames.items()) or scope.hint,
                ) from error
    return found, list(checker.tables.values())


def _list_columns(frames: Iterable[tuple[str, DataFrame]]) -> str:
    """Return the hint with each table's columns; empty if there is no table."""
    known = [(name, ", ".join(frame.columns)) for name, frame in frames]
    if len(known) == 1:
        return f"the table's columns are {known[0][1]}."
    return "; ".join(f"`{name}` has {columns}" for name, columns in known) + "." * bool(known)


def check_expression(
    spark: SparkSession, text: str, make_error: Callable[[str], ConfigError]
) -> None:
    """Raise ConfigError unless `text` is one SQL expression over a row, without table access.

    `make_error` returns the error for a text that Spark can't parse, given Spark's reason.
    """
    from pyspark.errors import ParseException

    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    with active_session(spark):
        try:
            condition = parser.parseExpression(text)
        except ParseException as error:
            raise make_error(sql_error_sentence(error)) from error
    verdict = "this is no condition on a row alone"
    checker = _PlanChecker(spark._jvm, verdict, lambda _: None, case_sensitive=False)
    checker.check(condition, frozenset())


class _PlanChecker:
    """Walks a parsed SQL plan and refuses nodes and functions that are not allow-listed.

    Args:
        verdict: beginning of the error's message.
        find: returns the table of a dotted name; None if the plan may not read it.
        case_sensitive: whether names of tables are case-sensitive.

    Attributes:
        tables: name in the plan -> its table.
    """

    def __init__(
        self,
        jvm: Any,
        verdict: str,
        find: Callable[[tuple[str, ...]], Any],
        *,
        case_sensitive: bool,
    ) -> None:
        self.tables: dict[str, Any] = {}
        self._find = find
        self._identifier = java_class(jvm, f"{_CATALYST}FunctionIdentifier")
        self._functions = java_class(jvm, f"{_CATALYST}analysis.FunctionRegistry").builtin()
        self._verdict = verdict
        self._case_sensitive = case_sensitive

    def check(self, item: Any, relation_names: frozenset[str]) -> None:
        """Check a plan node and all below it; raise ConfigError for one that is not allowed.

        Args:
            relation_names: the CTEs that are in scope.
        """
        if not hasattr(item, "getClass"):
            return
        kind = str(item.getClass().getName())
        match kind.removeprefix(_CATALYST):
            case "analysis.UnresolvedRelation":
                self._check_relation(item, relation_names)
                return
            case "plans.logical.UnresolvedWith":
                self._check_with(item, relation_names)
                return
            case "analysis.UnresolvedFunction":
                self._check_function(list(_members(item.nameParts())))
            case "analysis.UnresolvedGenerator":
                self._check_function(str(item.name().unquotedString()).split("."))
            case "analysis.UnresolvedTableValuedFunction":
                parts = list(_members(item.name()))
                if len(parts) != 1 or parts[0].lower() not in _TABLE_FUNCTIONS:
                    raise self._refusal(f"the table function {'.'.join(parts)!r}")
            case _ if _is_value(kind):
                return
            case _ if not _is_inner_node(kind):
                raise self._refusal(f"`{kind.rpartition('.')[2].rstrip('$')}`")
        for part in _members(item):
            self.check(part, relation_names)

    def _check_relation(self, relation: Any, relation_names: frozenset[str]) -> None:
        """Raise ConfigError unless the relation is a CTE or a table to read, without options."""
        parts = tuple(map(str, _members(relation.multipartIdentifier())))
        known = {self._fold_case(name) for name in relation_names}
        if len(parts) != 1 or self._fold_case(parts[0]) not in known:
            table = self._find(parts)
            if table is None:
                raise self._refusal(f"{'.'.join(parts)!r}, which is another table or a path")
            for name, other in self.tables.items():
                if self._fold_case(name) == self._fold_case(parts[0]) and table != other:
                    raise self._refusal(f"{name!r} and {parts[0]!r}, which are one name in SQL")
            self.tables[parts[0]] = table
        if not relation.options().isEmpty() or relation.isStreaming():
            raise self._refusal(f"options of {parts[0]!r}")

    def _check_with(self, node: Any, relation_names: frozenset[str]) -> None:
        """Check a WITH clause: each CTE sees the earlier ones, and the query sees all."""
        child, ctes, *others = _members(node)
        is_recursive = others[:1] == [True]  # Spark 4.0 added it
        for cte in _members(ctes):
            inner = relation_names | {str(cte._1())}
            self.check(cte._2(), inner if is_recursive else relation_names)
            relation_names = inner
        self.check(child, relation_names)

    def _check_function(self, parts: list[str]) -> None:
        """Raise ConfigError unless the name is a harmless built-in function of Spark."""
        name = parts[-1].lower()
        if len(parts) == 1 and name in _FUNCTIONS:
            return
        info = self._functions.lookupFunction(self._identifier(name))
        if len(parts) != 1 or (info.isDefined() and info.get().getGroup() not in _GROUPS):
            raise self._refusal(f"the function {'.'.join(parts)!r}")
        if info.isEmpty():
            raise self._refusal(f"{name!r}, which is none of Spark's own functions")

    def _refusal(self, used: str) -> ConfigError:
        """Return the ConfigError for a relation, function or node that is not allowed."""
        return ConfigError(
            f"{self._verdict}: it uses {used}",
            "what Spark's own functions make of the table's rows is allowed; what reaches files, "
            "Java or other tables is not: use Spark itself for that.",
        )

    def _fold_case(self, name: str) -> str:
        """Return a table's name in lower case, unless names are case-sensitive."""
        return name if self._case_sensitive else name.lower()


def _members(item: Any) -> Iterator[Any]:
    """Yield the items of a Scala collection, or the fields of a Scala case class."""
    kind = item.getClass().getName()
    found = item.iterator() if kind.startswith("scala.collection.") else item.productIterator()
    while found.hasNext():
        yield found.next()


def _is_inner_node(kind: str) -> bool:
    """Whether a Java class is an allowed plan node whose members need a check, too."""
    if kind in _NODES or kind.startswith(_COLLECTIONS):
        return True
    return kind.startswith(_EXPRESSIONS) and kind != _REFUSED_EXPRESSION


def _is_value(kind: str) -> bool:
    """Whether objects of a Java class are plain values or join types, without members to check."""
    join_type = kind.startswith(f"{_CATALYST}plans.") and kind.count(".") == 6
    return join_type or kind.startswith(_VALUES)
