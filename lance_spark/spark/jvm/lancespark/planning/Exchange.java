package lancespark.planning;

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import org.apache.spark.api.python.PythonWorker;

/** What a worker answers to a request, which is sent while the answer is read. The worker's channel does not block. */
class Exchange extends InputStream {
  private final PythonWorker worker;
  private final ByteBuffer request;

  Exchange(PythonWorker worker, byte[] request) {
    this.worker = worker;
    this.request = ByteBuffer.wrap(request);
  }

  public int read() throws IOException {
    byte[] one = new byte[1];
    return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
  }

  public int read(byte[] into, int offset, int length) throws IOException {
    ByteBuffer buffer = ByteBuffer.wrap(into, offset, length);
    boolean isInterrupted = false;
    try {
      int count = 0;
      while (count == 0) {
        worker.selector().select();
        // As with Spark's own processes, a request that was sent is answered: it may be a commit.
        isInterrupted = Thread.interrupted() || isInterrupted;
        if (worker.selectionKey().isReadable()) count = worker.channel().read(buffer);
        if (worker.selectionKey().isWritable()) send();
        worker.selector().selectedKeys().clear();
      }
      return count;
    } finally {
      if (isInterrupted) Thread.currentThread().interrupt();
    }
  }

  private void send() throws IOException {
    while (request.hasRemaining()) if (worker.channel().write(request) == 0) return;
    worker.selectionKey().interestOps(SelectionKey.OP_READ);
  }
}
