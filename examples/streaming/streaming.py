"""Accounts that follow a stream of payments, and a ledger that follows the accounts: three queries, each row exactly once.

    python streaming.py FOLDER

1. Payments arrive as JSON files, and a stream appends them to the table `payments.lance`.
2. A second stream reads this table, and merges each batch into `accounts.lance`: the balance of every account.
3. A third one reads the changes of the accounts, and appends them to `ledger.lance`: each balance before and after.

Kill it at any time and start it again: it goes on where it was. At the end, the ledger is replayed and compared with the accounts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark import LanceTable

FILES, PAYMENTS, ACCOUNTS = 3, 40, 7


def arrive(folder: Path) -> None:
    """Write the files with payments, as another program would."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in range(FILES):
        payments = [{"id": i, "account": i % ACCOUNTS, "amount": i * i % 100 - 40} for i in range(file * PAYMENTS, (file + 1) * PAYMENTS)]
        new = folder / f".{file}.json"
        new.write_text("\n".join(map(json.dumps, payments)))
        new.rename(folder / f"{file}.json")


def run(name: str, writer: object, folder: Path) -> None:
    """Run a query until it has read all that is there, and show what it did."""
    query = writer.option("checkpointLocation", str(folder / "checkpoints" / name)).trigger(availableNow=True).start()  # type: ignore[attr-defined]
    query.awaitTermination()
    batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
    print(f"{name}: {len(batches)} batches, {sum(batch['numInputRows'] for batch in batches)} rows", flush=True)


def main(folder: Path) -> None:
    """Run the three queries, and compare the ledger with the accounts."""
    spark = (
        SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).config("spark.log.level", "ERROR").getOrCreate()
    )
    lance_spark.enable(spark)
    payments, accounts, ledger = (str(folder / f"{name}.lance") for name in ("payments", "accounts", "ledger"))
    arrive(folder / "in")

    # A change feed of single rows needs permanent row ids.
    table = LanceTable.createIfNotExists(spark).location(accounts).addColumn("account", "BIGINT").addColumn("balance", "BIGINT")
    table.option("enable_stable_row_ids", True).execute()

    arriving = spark.readStream.schema("id BIGINT, account BIGINT, amount BIGINT").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    run("payments", arriving.writeStream.format("lance").option("path", payments), folder)

    def post(batch: DataFrame, number: int) -> None:
        sums = batch.groupBy("account").agg({"amount": "sum"}).toDF("account", "amount").alias("s")
        merge = LanceTable.forPath(spark, accounts).alias("t").merge(sums, "t.account = s.account")
        merge = merge.whenMatchedUpdate(set={"balance": "t.balance + s.amount"})
        merge = merge.whenNotMatchedInsert(values={"account": "s.account", "balance": "s.amount"})
        # Spark repeats a batch after a failure: with its number, the merge happens once.
        merge.execute(txnAppId="accounts", txnVersion=number)

    paid = spark.readStream.format("lance").option("maxFilesPerTrigger", 1).load(payments)
    run("accounts", paid.writeStream.foreachBatch(post), folder)

    changes = spark.readStream.format("lance").option("readChangeFeed", True).option("startingVersion", 1).load(accounts)
    changes = changes.withColumnsRenamed({"_change_type": "change", "_commit_version": "version", "_commit_timestamp": "time"})
    run("ledger", changes.writeStream.format("lance").option("path", ledger), folder)

    balances: dict[int, int] = {}
    for row in spark.read.format("lance").load(ledger).where("change <> 'update_preimage'").orderBy("version").collect():
        balances[row.account] = row.balance
    assert balances == {row.account: row.balance for row in spark.read.format("lance").load(accounts).collect()}
    print(f"{len(balances)} accounts with {sum(balances.values())} in all: the ledger agrees")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
