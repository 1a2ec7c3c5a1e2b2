{# dbt-spark has a list of the formats that it knows. These macros take the place of its own, and add lance. #}

{% macro dbt_spark_validate_get_file_format(raw_file_format) %}
  {% do return(raw_file_format) %}
{% endmacro %}

{% macro dbt_spark_validate_get_incremental_strategy(raw_strategy, file_format) %}
  {% if raw_strategy not in ['append', 'merge', 'insert_overwrite'] %}
    {% do exceptions.raise_compiler_error("lance tables have the incremental strategies append, merge and insert_overwrite, not " ~ raw_strategy) %}
  {% endif %}
  {% do return(raw_strategy) %}
{% endmacro %}
