select id, id % 7 as shop, id * 1.5 as price from range(100)
