{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id', on_schema_change='append_new_columns') }}
select id, shop, price from {{ ref('orders') }}
{% if is_incremental() %}
where price > 100
{% endif %}
