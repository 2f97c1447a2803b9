package io.lakeport.delta;

import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes the small files that Delta (a version's checksum) and streaming queries (their progress)
 * want to appear whole or not at all. Spark's own way is a temporary file that gets renamed, which
 * on S3 is a copy and a delete: some twenty requests and one more permission for what a single put
 * does. Elsewhere than on S3, files are written Spark's own way.
 *
 * <p>Set as {@code spark.sql.streaming.checkpointFileManagerClass}.
 */
public final class WholeFiles implements CheckpointFileManager {

  private final CheckpointFileManager files;
  private final FileSystem s3;

  /** Called by Spark. */
  public WholeFiles(Path path, Configuration conf) throws IOException {
    String scheme = path.toUri().getScheme();
    FileSystem found =
        "s3a".equals(scheme) || "s3".equals(scheme) ? path.getFileSystem(conf) : null;
    s3 = found != null && ConditionalPut.isAvailable(found, path) ? found : null;
    files = s3 != null ? new FileSystemBasedCheckpointFileManager(path, conf) : usual(path, conf);
  }

  private static CheckpointFileManager usual(Path path, Configuration conf) throws IOException {
    try {
      return new FileContextBasedCheckpointFileManager(path, conf);
    } catch (Exception e) { // Scala does not declare it
      if (e instanceof UnsupportedFileSystemException) {
        return new FileSystemBasedCheckpointFileManager(path, conf);
      }
      throw e;
    }
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    if (s3 == null) {
      return files.createAtomic(path, overwriteIfPossible);
    }
    if (!overwriteIfPossible) {
      ByteArrayOutputStream content = new ByteArrayOutputStream(); // such files are small
      return new Whole(
          content, () -> ConditionalPut.create(s3, path, content.toByteArray()), () -> {});
    }
    try {
      FSDataOutputStream out = s3.createFile(path).recursive().overwrite(true).build();
      return new Whole(out, out, out::abort);
    } catch (IOException e) {
      throw WholeFiles.<RuntimeException>undeclared(e);
    }
  }

  /** Throws what Scala does not declare and its callers catch nevertheless. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E undeclared(IOException e) throws E {
    throw (E) e;
  }

  /** A put that is sent by {@code close}, and not at all after {@code cancel}. */
  private static final class Whole extends CancellableFSDataOutputStream {
    private final Closeable put;
    private final Runnable abort;
    private boolean done;

    Whole(OutputStream content, Closeable put, Runnable abort) {
      super(content);
      this.put = put;
      this.abort = abort;
    }

    @Override
    public void close() throws IOException {
      if (!done) {
        done = true;
        put.close();
      }
    }

    @Override
    public void cancel() {
      if (!done) {
        done = true;
        abort.run();
      }
    }
  }

  @Override
  public FSDataInputStream open(Path path) {
    return files.open(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return files.list(path, filter);
  }

  @Override
  public void mkdirs(Path path) {
    files.mkdirs(path);
  }

  @Override
  public boolean exists(Path path) {
    return files.exists(path);
  }

  @Override
  public void delete(Path path) {
    files.delete(path);
  }

  @Override
  public boolean isLocal() {
    return files.isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    return files.createCheckpointDirectory();
  }
}
