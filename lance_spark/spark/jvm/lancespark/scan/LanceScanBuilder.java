package lancespark.scan;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.*;
import lancespark.protocol.Json;
import lancespark.source.Source;
import org.apache.spark.sql.connector.expressions.*;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Collects what Spark pushes down. The reader returns at most n rows or the aggregates of its rows per partition, so Spark computes the final
 * result of a top-N, of a limit after a filter, and of most aggregates.
 */
@SuppressWarnings({"rawtypes", "unchecked"})
public class LanceScanBuilder extends ColumnsBuilder implements SupportsPushDownV2Filters, SupportsPushDownLimit, SupportsPushDownTopN,
    SupportsPushDownAggregates {
  private boolean averagesExactly = true;

  public LanceScanBuilder(Source source, CaseInsensitiveStringMap options) {
    super(source);
    if (source.can("filter")) request.addConditions(options);
  }

  public Predicate[] pushPredicates(Predicate[] predicates) {
    if (!source.can("filter")) return predicates;
    List rest = new ArrayList();
    for (int i = 0; i < predicates.length; i++) {
      PlanJson json = new PlanJson(source.table.schema());
      JsonNode filter = json.expression(predicates[i]);
      if (filter != null) {
        request.predicates.add(predicates[i]);
        request.filters.add(filter);
      }
      if (filter == null || !json.isExact) rest.add(predicates[i]);
    }
    return (Predicate[]) rest.toArray(new Predicate[rest.size()]);
  }

  public Predicate[] pushedPredicates() { return (Predicate[]) request.predicates.toArray(new Predicate[request.predicates.size()]); }

  public boolean pushLimit(int limit) {
    if (request.aggregates != null || !source.can("limit")) return false;
    request.limit = limit;
    return true;
  }

  public boolean pushTopN(SortOrder[] orders, int limit) {
    if (request.aggregates != null || !source.can("top")) return false;
    PlanJson json = new PlanJson(source.table.schema());
    ArrayNode keys = Json.array();
    for (int i = 0; i < orders.length; i++) {
      JsonNode column = orders[i].expression() instanceof NamedReference ? json.column((NamedReference) orders[i].expression(), false) : null;
      if (column == null || !json.isExact) return false;
      boolean ascending = orders[i].direction() == SortDirection.ASCENDING, nullsFirst = orders[i].nullOrdering() == NullOrdering.NULLS_FIRST;
      keys.add(Json.array().add(column).add(ascending).add(nullsFirst));
    }
    request.topN = keys;
    request.shownTopN = Arrays.asList(orders) + " LIMIT " + limit;
    request.limit = limit;
    return true;
  }

  /** A limit without a filter is exact, because planning counts rows, unless they are also in a write-ahead log. */
  public boolean isPartiallyPushed() { return request.topN != null || !request.filters.isEmpty() || !source.can("exact_limit"); }

  /** Only aggregates that the manifest answers are complete, as one row for the whole table. */
  public boolean supportCompletePushDown(Aggregation aggregation) {
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    // Spark asks before it replaces averages by sums and counts.
    averagesExactly = averagesExactly && PushedAggregates.averagesExactly(aggregation, source.table.schema());
    for (int i = 0; i < functions.length; i++) if (!(functions[i] instanceof CountStar)) return false;
    return request.filters.isEmpty() && aggregation.groupByExpressions().length == 0 && source.can("count");
  }

  public boolean pushAggregation(Aggregation aggregation) {
    if (!averagesExactly || !source.can("aggregates")) return false;
    try {
      request.aggregates = new PushedAggregates(aggregation, source.table.schema());
      schema = request.aggregates.schema;
      return true;
    } catch (Unsupported e) {
      return false;
    }
  }
}
