package io.lakeport.aws.v1;

import com.amazonaws.auth.AWSCredentials;
import com.amazonaws.auth.AWSCredentialsProvider;
import com.amazonaws.auth.AWSStaticCredentialsProvider;
import com.amazonaws.auth.BasicAWSCredentials;
import com.amazonaws.auth.BasicSessionCredentials;
import com.amazonaws.auth.DefaultAWSCredentialsProviderChain;
import com.amazonaws.auth.STSAssumeRoleSessionCredentialsProvider;
import com.amazonaws.auth.profile.ProfileCredentialsProvider;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.securitytoken.AWSSecurityTokenService;
import com.amazonaws.services.securitytoken.AWSSecurityTokenServiceClientBuilder;
import java.io.Closeable;
import java.io.IOException;
import java.net.URI;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;

/** {@code io.lakeport.aws.AssumedRole} for S3A of Hadoop 3.3, which has the AWS SDK v1. */
public final class AssumedRole implements AWSCredentialsProvider, Closeable {

  private static final String S3A = "fs.s3a.";
  private static final String ROLE = S3A + "assumed.role.";

  private final AWSSecurityTokenService sts;
  private final STSAssumeRoleSessionCredentialsProvider role;

  /** Called by S3A; nothing is asked of the STS before credentials are needed. */
  public AssumedRole(URI bucket, Configuration conf) throws IOException {
    AWSSecurityTokenServiceClientBuilder builder =
        AWSSecurityTokenServiceClientBuilder.standard().withCredentials(own(conf));
    String region = conf.getTrimmed(ROLE + "sts.endpoint.region");
    String endpoint = conf.getTrimmed(ROLE + "sts.endpoint", "");
    if (endpoint.isEmpty()) {
      builder.setRegion(region);
    } else {
      builder.setEndpointConfiguration(new EndpointConfiguration(endpoint, region));
    }
    sts = builder.build();
    String external = secret(conf, "assumed.role.external.id");
    role =
        new STSAssumeRoleSessionCredentialsProvider.Builder(
                conf.getTrimmed(ROLE + "arn"), conf.getTrimmed(ROLE + "session.name"))
            .withStsClient(sts)
            .withRoleSessionDurationSeconds(
                (int) conf.getTimeDuration(ROLE + "session.duration", 3600, TimeUnit.SECONDS))
            .withExternalId(external.isEmpty() ? null : external)
            .build();
  }

  @Override
  public AWSCredentials getCredentials() {
    return role.getCredentials();
  }

  @Override
  public void refresh() {
    role.refresh();
  }

  @Override
  public void close() {
    role.close();
    sts.shutdown();
  }

  /** The credentials that assume the role. */
  private static AWSCredentialsProvider own(Configuration conf) throws IOException {
    String key = secret(conf, "access.key");
    if (!key.isEmpty()) {
      String token = secret(conf, "session.token");
      return new AWSStaticCredentialsProvider(
          token.isEmpty()
              ? new BasicAWSCredentials(key, secret(conf, "secret.key"))
              : new BasicSessionCredentials(key, secret(conf, "secret.key"), token));
    }
    String profile = conf.getTrimmed(S3A + "auth.profile.name", "");
    return profile.isEmpty()
        ? DefaultAWSCredentialsProviderChain.getInstance()
        : new ProfileCredentialsProvider(profile);
  }

  /** Out of the configuration or of a Hadoop credential store, where one is set up. */
  private static String secret(Configuration conf, String name) throws IOException {
    char[] found = conf.getPassword(S3A + name);
    return found == null ? "" : new String(found).trim();
  }
}
