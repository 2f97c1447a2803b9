package io.lakeport.local;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsConstants;

/**
 * {@link RawLocalFiles} with Hadoop's checksums, for those who reach files by a {@code
 * FileContext}: Delta's log and the progress of streaming queries. Set as {@code
 * fs.AbstractFileSystem.file.impl}.
 */
public final class LocalContext extends ChecksumFs {

  /** Called by Hadoop. */
  public LocalContext(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(new Raw(conf));
  }

  private static final class Raw extends DelegateToFileSystem {

    Raw(Configuration conf) throws IOException, URISyntaxException {
      super(
          FsConstants.LOCAL_FS_URI,
          new RawLocalFiles(),
          conf,
          FsConstants.LOCAL_FS_URI.getScheme(),
          false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1; // the local disk has none
    }

    @Override
    public boolean isValidName(String name) {
      return true; // every name that the disk takes
    }
  }
}
