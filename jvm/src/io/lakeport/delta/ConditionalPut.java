package io.lakeport.delta;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Creates objects on S3 that nobody has, each by one put with {@code If-None-Match: *}.
 *
 * <p>S3A of Hadoop 3.4.2 and later has an option for such a put. Before that, S3A makes the request
 * with its own settings (encryption, ACL, storage class), and its client sends it with the header:
 * {@link SdkV2Put} for Hadoop 3.4.0 and 3.4.1, {@link SdkV1Put} for 3.3.2 to 3.3.6. Neither class is
 * loaded where it is not needed, as its SDK may not be there.
 *
 * <p>Every object carries a token in its metadata: when the answer to a put is lost, or says that
 * the object exists already, the token tells whose it is.
 */
public final class ConditionalPut {

  /** S3A's option for a put that only creates. */
  private static final String CREATE_ONLY = "fs.option.create.conditional.overwrite";

  /** S3A's setting for stores that can't put conditionally. */
  private static final String ENABLED = "fs.s3a.create.conditional.enabled";

  private static final String S3A = "org.apache.hadoop.fs.s3a.S3AFileSystem";
  private static final String HEADER = "fs.s3a.create.header.";
  private static final String TOKEN = "lakeport-commit";
  private static final int ATTEMPTS = 6;

  private interface Sender {
    void send(FileSystem fs, Path path, byte[] content, String name, String token)
        throws IOException;
  }

  private ConditionalPut() {}

  /**
   * Creates an object.
   *
   * @throws FileAlreadyExistsException somebody else has it
   * @throws UnsupportedOperationException the file system can't put conditionally
   */
  public static void create(FileSystem fs, Path path, byte[] content) throws IOException {
    Sender sender = sender(fs, path);
    if (sender == null) {
      throw new UnsupportedOperationException(
          "this file system can't create conditionally (" + CREATE_ONLY + "): " + path + " is of "
              + fs.getClass().getName() + "; S3A of Hadoop 3.3.2 and later can, unless " + ENABLED
              + " is false");
    }
    String token = UUID.randomUUID().toString();
    IOException last = null;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      pause(attempt);
      try {
        sender.send(fs, path, content, TOKEN, token);
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

  /** Whether the file system can put conditionally. */
  public static boolean isAvailable(FileSystem fs, Path path) throws IOException {
    return sender(fs, path) != null;
  }

  /** How this file system puts conditionally; null if it can't. */
  private static Sender sender(FileSystem fs, Path path) throws IOException {
    if (fs.hasPathCapability(path, CREATE_ONLY)) {
      return ConditionalPut::sendByOption;
    }
    Class<?> s3a = s3a(fs);
    if (s3a != null && fs.getConf().getBoolean(ENABLED, true)) {
      if (hasMethod(s3a, "getS3AInternals")) {
        return SdkV2Put::send;
      }
      if (hasMethod(s3a, "getRequestFactory")) {
        return SdkV1Put::send;
      }
    }
    return null;
  }

  /** Hadoop's S3A, if the file system is one; it need not be on the class path. */
  private static Class<?> s3a(FileSystem fs) {
    Class<?> found = fs.getClass();
    while (found != null && !found.getName().equals(S3A)) {
      found = found.getSuperclass();
    }
    return found;
  }

  private static boolean hasMethod(Class<?> owner, String name) {
    try {
      owner.getMethod(name);
      return true;
    } catch (NoSuchMethodException e) {
      return false;
    }
  }

  private static void sendByOption(
      FileSystem fs, Path path, byte[] content, String name, String token) throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = fs.createFile(path);
    builder.overwrite(false);
    builder.recursive();
    builder.must(CREATE_ONLY, true);
    builder.opt(HEADER + name, token);
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
      throw new InterruptedIOException("interrupted between two attempts to commit");
    }
  }
}
