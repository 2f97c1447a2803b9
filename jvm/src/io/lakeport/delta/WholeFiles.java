package io.lakeport.delta;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.hadoop.fs.s3a.RemoteFileChangedException;
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

  private static final String CREATE_ONLY = "fs.option.create.conditional.overwrite";

  private final CheckpointFileManager files;
  private final FileSystem s3;

  /** Called by Spark. */
  public WholeFiles(Path path, Configuration conf) throws IOException {
    String scheme = path.toUri().getScheme();
    boolean onS3 = "s3a".equals(scheme) || "s3".equals(scheme);
    s3 = onS3 ? path.getFileSystem(conf) : null;
    files = onS3 ? new FileSystemBasedCheckpointFileManager(path, conf) : usual(path, conf);
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
    try {
      FSDataOutputStreamBuilder<?, ?> builder = s3.createFile(path);
      builder.recursive().overwrite(overwriteIfPossible);
      if (!overwriteIfPossible) {
        builder.opt(CREATE_ONLY, true);
      }
      return new Whole(path, builder.build());
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
    private final Path path;
    private final FSDataOutputStream out;
    private boolean done;

    Whole(Path path, FSDataOutputStream out) {
      super(out);
      this.path = path;
      this.out = out;
    }

    @Override
    public void close() throws IOException {
      if (done) {
        return;
      }
      done = true;
      try {
        out.close();
      } catch (RemoteFileChangedException e) {
        FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
        taken.initCause(e);
        throw taken;
      }
    }

    @Override
    public void cancel() {
      if (!done) {
        done = true;
        out.abort();
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

  @Override
  public void close() {
    files.close();
  }
}
