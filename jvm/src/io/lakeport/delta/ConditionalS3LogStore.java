package io.lakeport.delta;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * A log store that lets any number of writers share a Delta table on S3, without a lock table.
 *
 * <p>A commit is one {@link ConditionalPut}, so the store itself decides who was first. Reading and
 * listing are the stock store's.
 *
 * <p>Set as {@code spark.delta.logStore.s3a.impl} and {@code spark.delta.logStore.s3.impl}. It holds
 * for writers that all put conditionally: this one, and delta-rs.
 */
public final class ConditionalS3LogStore extends S3SingleDriverLogStore {

  private static final String S3A = "fs.s3a.";
  private static final String PERFORMANCE_FLAGS = "performance.flags";
  private static final String CREATE_PERFORMANCE = "create.performance";

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
    try {
      // The iterator gives its lines once, and the put may have to be repeated.
      ConditionalPut.create(path.getFileSystem(conf), path, drain(actions));
    } catch (org.apache.hadoop.fs.FileAlreadyExistsException e) {
      FileAlreadyExistsException taken = new FileAlreadyExistsException(path.toString());
      taken.initCause(e.getCause());
      throw taken;
    }
  }

  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return false;
  }

  /** S3A then turns a create that must not overwrite into one that silently does. */
  private static void refuseBlindCreates(Path path, Configuration conf) {
    for (String prefix : Arrays.asList(S3A, S3A + "bucket." + path.toUri().getHost() + ".")) {
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
}
