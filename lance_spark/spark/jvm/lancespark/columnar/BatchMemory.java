package lancespark.columnar;

import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.util.TransferPair;
import org.apache.spark.unsafe.Platform;

/** The buffers of one batch. They are freed when all columns are closed, when the next batch is read, or when the task ends. */
final class BatchMemory {
  private static final byte POISON = (byte) 0xA5;
  private ValueVector arrays;
  private int openColumns = 0;

  /** Takes the buffers of a struct array, whose children are the columns, from the Python runner, which would free them. */
  BatchMemory(ValueVector struct, BufferAllocator allocator) {
    TransferPair transfer = struct.getTransferPair(allocator);
    transfer.transfer();
    arrays = transfer.getTo();
  }

  ValueVector arrays() { return arrays; }
  boolean isFreed() { return arrays == null; }
  void addColumn() { openColumns++; }

  void columnClosed() {
    if (--openColumns == 0) free();
  }

  /** Frees the buffers; does nothing if they are freed. */
  synchronized void free() {
    if (arrays == null) return;
    if (FlatVector.CHECKED) poison();
    arrays.close();
    arrays = null;
  }

  /** Overwrites the buffers, so that a string that points into them cannot look right. */
  private void poison() {
    ArrowBuf[] buffers = arrays.getBuffers(false);
    for (int i = 0; i < buffers.length; i++) Platform.setMemory(buffers[i].memoryAddress(), POISON, buffers[i].capacity());
  }
}
