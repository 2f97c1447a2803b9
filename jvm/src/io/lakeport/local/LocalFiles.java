package io.lakeport.local;

import org.apache.hadoop.fs.LocalFileSystem;

/** {@link RawLocalFiles} with Hadoop's checksums. Set as {@code fs.file.impl}. */
public final class LocalFiles extends LocalFileSystem {

  /** Called by Hadoop. */
  public LocalFiles() {
    super(new RawLocalFiles());
  }
}
