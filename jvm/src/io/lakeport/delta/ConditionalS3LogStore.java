package io.lakeport.delta;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A log store that lets any number of writers share a Delta table on S3, without a lock table.
 *
 * <p>A commit is one put with {@code If-None-Match: *}, so the store itself decides who was first.
 * Every commit carries a token in its metadata: when the answer to a put is lost, or says that the
 * object exists already, the token tells whose it is. Reading and listing are the stock store's.
 *
 * <p>Set as {@code spark.delta.logStore.s3a.impl} and {@code spark.delta.logStore.s3.impl}. It holds
 * for writers that all put conditionally: this one, and delta-rs.
 */
public final class ConditionalS3LogStore extends S3SingleDriverLogStore {

  /** S3A's option for a put that only creates (Hadoop 3.4.2 and later). */
  private static final String CREATE_ONLY = "fs.option.create.conditional.overwrite";

  private static final String S3A = "fs.s3a.";
  private static final String PERFORMANCE_FLAGS = "performance.flags";
  private static final String CREATE_PERFORMANCE = "create.performance";
  private static final String HEADER = "fs.s3a.create.header.";
  private static final String TOKEN = "lakeport-commit";
  private static final int ATTEMPTS = 6;

  public ConditionalS3LogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf)
      throws IOException {
    if (overwrite) {
      super.write(path, actions, true, conf);
      return;
    }
    refuseBlindCreates(path, conf);
    FileSystem fs = path.getFileSystem(conf);
    if (!fs.hasPathCapability(path, CREATE_ONLY)) {
      throw new UnsupportedOperationException(
          "this file system can't create conditionally (" + CREATE_ONLY + "): " + path);
    }
    // The iterator gives its lines once, and the put may have to be repeated.
    byte[] content = drain(actions);
    create(fs, path, content, UUID.randomUUID().toString());
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }

  /** S3A then turns a create that must not overwrite into one that silently does. */
  private static void refuseBlindCreates(Path path, Configuration conf) {
    for (String prefix : List.of(S3A, S3A + "bucket." + path.toUri().getHost() + ".")) {
      String flags = conf.get(prefix + PERFORMANCE_FLAGS, "");
      for (String flag : flags.toLowerCase(Locale.ROOT).split(",")) {
        if (flag.trim().equals("create") || flag.trim().equals("*")) {
          throw new IllegalStateException(
              S3A + PERFORMANCE_FLAGS + " holds 'create', which lets a commit overwrite another one;"
                  + " take it out for buckets that hold tables");
        }
      }
      if (conf.getBoolean(prefix + CREATE_PERFORMANCE, false)) {
        throw new IllegalStateException(
            S3A + CREATE_PERFORMANCE + " lets a commit overwrite another one;"
                + " turn it off for buckets that hold tables");
      }
    }
  }

  private static byte[] drain(Iterator<String> actions) {
    ByteArrayOutputStream buffer = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      byte[] line = (actions.next() + "\n").getBytes(StandardCharsets.UTF_8);
      buffer.write(line, 0, line.length);
    }
    return buffer.toByteArray();
  }

  private static void create(FileSystem fs, Path path, byte[] content, String token)
      throws IOException {
    IOException last = null;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      pause(attempt);
      try {
        put(fs, path, content, token);
        return;
      } catch (IOException e) {
        last = e;
      }
      switch (owner(fs, path, token, last)) {
        case OURS:
          return;
        case ANOTHER:
          FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
          taken.initCause(last);
          throw taken;
        case NOBODY:
          if (!mayRepeat(last)) {
            throw last;
          }
          break;
        default:
          throw new IllegalStateException("unreachable");
      }
    }
    throw last;
  }

  private static void put(FileSystem fs, Path path, byte[] content, String token)
      throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path);
    builder.overwrite(false);
    builder.recursive();
    builder.must(CREATE_ONLY, true);
    builder.opt(HEADER + TOKEN, token);
    FSDataOutputStream out = builder.build();
    try {
      out.write(content);
    } catch (IOException | RuntimeException e) {
      out.abort(); // close() would publish what is there
      throw e;
    }
    out.close();
  }

  private enum Owner {
    OURS,
    ANOTHER,
    NOBODY
  }

  /** Who has the object after a put that failed or whose answer was lost. */
  private static Owner owner(FileSystem fs, Path path, String token, IOException failure)
      throws IOException {
    byte[] found;
    try {
      found = fs.getXAttr(path, "header." + TOKEN);
    } catch (FileNotFoundException e) {
      return Owner.NOBODY;
    } catch (IOException e) {
      IOException unknown =
          new IOException(
              "the outcome of the commit is unknown: " + path + " could not be written and then"
                  + " not be read; look at the table's history before repeating the commit",
              failure);
      unknown.addSuppressed(e);
      throw unknown;
    }
    if (found == null) {
      return Owner.ANOTHER;
    }
    return new String(found, StandardCharsets.UTF_8).equals(token) ? Owner.OURS : Owner.ANOTHER;
  }

  /**
   * Whether the put can be sent again when nobody has the object: a conflict between two puts that
   * came together (409), or an upload that vanished. What S3A has given up on is not repeated.
   */
  private static boolean mayRepeat(IOException failure) {
    for (Throwable t = failure; t != null; t = t.getCause()) {
      String text = String.valueOf(t.getMessage());
      if (text.contains("ConditionalRequestConflict")
          || text.contains("OperationAborted")
          || text.contains("NoSuchUpload")
          || text.contains("Status Code: 409")
          || text.contains("PreconditionFailed")
          || text.contains("Status Code: 412")) {
        return true;
      }
    }
    return false;
  }

  private static void pause(int attempt) throws IOException {
    if (attempt == 0) {
      return;
    }
    long longest = Math.min(2_000L, 50L << attempt);
    try {
      Thread.sleep((long) (Math.random() * longest));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new java.io.InterruptedIOException("interrupted between two attempts to commit");
    }
  }
}
