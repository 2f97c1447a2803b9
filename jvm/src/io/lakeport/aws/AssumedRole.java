package io.lakeport.aws;

import java.io.IOException;
import java.net.URI;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.AwsSessionCredentials;
import software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider;
import software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.http.apache.ApacheHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sts.StsClient;
import software.amazon.awssdk.services.sts.StsClientBuilder;
import software.amazon.awssdk.services.sts.auth.StsAssumeRoleCredentialsProvider;
import software.amazon.awssdk.services.sts.model.AssumeRoleRequest;
import software.amazon.awssdk.utils.SdkAutoCloseable;

/**
 * Credentials of an assumed role for S3A, renewed before they expire.
 *
 * <p>S3A's own provider reaches an STS over https and without a port only, which leaves out the
 * stores that answer STS at their own address. This one takes the endpoint as a whole URL; what it
 * reads are S3A's settings {@code fs.s3a.assumed.role.*}, {@code fs.s3a.access.key} and its like,
 * which S3A fills in from those of the bucket.
 */
public final class AssumedRole implements AwsCredentialsProvider, SdkAutoCloseable {

  private static final String S3A = "fs.s3a.";
  private static final String ROLE = S3A + "assumed.role.";

  private final StsClient sts;
  private final StsAssumeRoleCredentialsProvider role;

  /** Called by S3A; nothing is asked of the STS before credentials are needed. */
  public AssumedRole(URI bucket, Configuration conf) throws IOException {
    StsClientBuilder builder =
        StsClient.builder()
            .httpClientBuilder(ApacheHttpClient.builder())
            .region(Region.of(conf.getTrimmed(ROLE + "sts.endpoint.region")))
            .credentialsProvider(own(conf));
    String endpoint = conf.getTrimmed(ROLE + "sts.endpoint", "");
    if (!endpoint.isEmpty()) {
      builder.endpointOverride(URI.create(endpoint));
    }
    sts = builder.build();
    role =
        StsAssumeRoleCredentialsProvider.builder()
            .stsClient(sts)
            .refreshRequest(request(conf))
            .build();
  }

  @Override
  public AwsCredentials resolveCredentials() {
    return role.resolveCredentials();
  }

  @Override
  public void close() {
    role.close();
    sts.close();
  }

  /** The credentials that assume the role. */
  private static AwsCredentialsProvider own(Configuration conf) throws IOException {
    String key = secret(conf, "access.key");
    if (!key.isEmpty()) {
      String token = secret(conf, "session.token");
      return StaticCredentialsProvider.create(
          token.isEmpty()
              ? AwsBasicCredentials.create(key, secret(conf, "secret.key"))
              : AwsSessionCredentials.create(key, secret(conf, "secret.key"), token));
    }
    String profile = conf.getTrimmed(S3A + "auth.profile.name", "");
    return profile.isEmpty()
        ? DefaultCredentialsProvider.builder().build()
        : ProfileCredentialsProvider.create(profile);
  }

  /** Out of the configuration or of a Hadoop credential store, where one is set up. */
  private static String secret(Configuration conf, String name) throws IOException {
    char[] found = conf.getPassword(S3A + name);
    return found == null ? "" : new String(found).trim();
  }

  private static AssumeRoleRequest request(Configuration conf) throws IOException {
    String external = secret(conf, "assumed.role.external.id");
    return AssumeRoleRequest.builder()
        .roleArn(conf.getTrimmed(ROLE + "arn"))
        .roleSessionName(conf.getTrimmed(ROLE + "session.name"))
        .durationSeconds(
            (int) conf.getTimeDuration(ROLE + "session.duration", 3600, TimeUnit.SECONDS))
        .externalId(external.isEmpty() ? null : external)
        .build();
  }
}
