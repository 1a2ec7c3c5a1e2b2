"""Joins by nearness in Spark's own words, `q JOIN t APPROX NEAREST 10 BY DISTANCE ..`: Spark plans the steps of a nearest join for them."""
