package io.lakeport.local;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The local disk without another process for each permission that is set ({@code chmod}) and each
 * name that may be a link ({@code readlink}): Hadoop starts these where its native library is not
 * installed, some ten for one commit to a Delta table.
 */
final class RawLocalFiles extends RawLocalFileSystem {

  @Override
  public void setPermission(org.apache.hadoop.fs.Path file, FsPermission permission)
      throws IOException {
    Path path = pathToFile(file).toPath();
    boolean posix = path.getFileSystem().supportedFileAttributeViews().contains("posix");
    if (permission.getStickyBit() || !posix) {
      super.setPermission(file, permission); // which Java has no way to say
      return;
    }
    String letters =
        permission.getUserAction().SYMBOL
            + permission.getGroupAction().SYMBOL
            + permission.getOtherAction().SYMBOL;
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(letters));
  }

  @Override
  public FileStatus getFileLinkStatus(org.apache.hadoop.fs.Path file) throws IOException {
    boolean link = Files.isSymbolicLink(pathToFile(file).toPath());
    return link ? super.getFileLinkStatus(file) : getFileStatus(file);
  }
}
