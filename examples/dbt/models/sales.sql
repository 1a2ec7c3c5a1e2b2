select shop, count(*) as orders, sum(price) as price from {{ ref('orders') }} group by shop
