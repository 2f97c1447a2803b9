package io.lakeport.aws.v1;

import com.amazonaws.auth.AWSCredentials;
import com.amazonaws.auth.AWSCredentialsProvider;
import com.amazonaws.auth.profile.ProfileCredentialsProvider;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;

/** Credentials of {@code fs.s3a.auth.profile.name}, which S3A itself knows since Hadoop 3.4. */
public final class Profile implements AWSCredentialsProvider {

  private final ProfileCredentialsProvider profile;

  /** Called by S3A. */
  public Profile(URI bucket, Configuration conf) {
    profile = new ProfileCredentialsProvider(conf.getTrimmed("fs.s3a.auth.profile.name"));
  }

  @Override
  public AWSCredentials getCredentials() {
    return profile.getCredentials();
  }

  @Override
  public void refresh() {
    profile.refresh();
  }
}
