package lancespark.planning;

/** A request of Spark to a source, which is asked again if the process that gets it ends before it answers. */
abstract class Question {
  /** Spark's PythonPlannerRunner. With `isAgain`, it says that it may have been answered already. */
  abstract Object request(boolean isAgain);

  /** What is known if no process answers. */
  String outcome() { return "Nothing was changed"; }
}
