package lancespark.nearest;

/** Why a join is left to Spark. */
@SuppressWarnings("serial")
class Declined extends RuntimeException {
  /** True if the table is not of lance. */
  final boolean isOfOthers;

  Declined(String why) { this(why, false); }

  Declined(String why, boolean isOfOthers) {
    super(why);
    this.isOfOthers = isOfOthers;
  }
}
