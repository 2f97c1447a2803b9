package io.lakeport.delta;

import java.io.IOException;
import java.util.Collections;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.Invoker;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3ARetryPolicy;
import org.apache.hadoop.fs.store.audit.AuditSpan;
import software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.PutObjectRequest;

/** A conditional put by S3A's own client of the AWS SDK v2, for Hadoop 3.4.0 and 3.4.1. */
final class SdkV2Put {

  private SdkV2Put() {}

  /** Sends one put with {@code name: token} in its metadata; S3A's policy repeats it. */
  @SuppressWarnings("try") // the span holds for this thread
  static void send(FileSystem fs, Path path, byte[] content, String name, String token)
      throws IOException {
    S3AFileSystem s3a = (S3AFileSystem) fs;
    String key = s3a.pathToKey(path);
    try (AuditSpan span = s3a.createSpan("op_create_file", key, null)) {
      PutObjectRequest.Builder builder =
          s3a.getRequestFactory().newPutObjectRequestBuilder(key, null, content.length, false);
      AwsRequestOverrideConfiguration given = builder.overrideConfiguration();
      PutObjectRequest request =
          builder
              .metadata(Collections.singletonMap(name, token))
              .overrideConfiguration(
                  (given == null ? AwsRequestOverrideConfiguration.builder() : given.toBuilder())
                      .putHeader("If-None-Match", "*")
                      .build())
              .build();
      S3Client client = s3a.getS3AInternals().getAmazonS3Client("conditional put");
      new Invoker(new S3ARetryPolicy(fs.getConf()), Invoker.LOG_EVENT)
          .retry(
              "conditional put",
              path.toString(),
              true,
              () -> client.putObject(request, RequestBody.fromBytes(content)));
    }
  }
}
