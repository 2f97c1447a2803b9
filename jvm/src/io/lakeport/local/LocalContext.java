package io.lakeport.local;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.Path;

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

    /**
     * Renames to a name that nobody has. Hadoop looks whether somebody has it and then renames, over
     * what may be there by then; a link is made or is not, so that of two writers of one version of a
     * Delta table the second learns of the first.
     */
    @Override
    public void renameInternal(Path from, Path to, boolean overwrite) throws IOException {
      if (overwrite || !linked(from, to)) {
        super.renameInternal(from, to, overwrite);
      }
    }

    private static boolean linked(Path from, Path to) throws IOException {
      java.nio.file.Path source = Paths.get(from.toUri().getPath());
      if (!Files.isRegularFile(source, LinkOption.NOFOLLOW_LINKS)) {
        return false;
      }
      try {
        Files.createLink(Paths.get(to.toUri().getPath()), source);
      } catch (java.nio.file.FileAlreadyExistsException e) {
        throw new FileAlreadyExistsException("rename destination " + to + " already exists.");
      } catch (IOException | UnsupportedOperationException e) {
        return false; // a disk without links
      }
      Files.delete(source);
      return true;
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
