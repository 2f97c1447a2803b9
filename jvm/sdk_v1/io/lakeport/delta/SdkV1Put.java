package io.lakeport.delta;

import com.amazonaws.AmazonServiceException;
import com.amazonaws.services.s3.AmazonS3;
import com.amazonaws.services.s3.model.ObjectMetadata;
import com.amazonaws.services.s3.model.PutObjectRequest;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.Invoker;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import org.apache.hadoop.fs.s3a.S3ARetryPolicy;
import org.apache.hadoop.fs.s3a.api.RequestFactory;
import org.apache.hadoop.fs.store.audit.AuditSpan;
import org.apache.hadoop.io.retry.RetryPolicy;

/** A conditional put by S3A's own client of the AWS SDK v1, for Hadoop 3.3.2 to 3.3.6. */
final class SdkV1Put {

  /** Clients by file system: S3A warns each time it is asked for one. */
  private static final Map<S3AFileSystem, AmazonS3> CLIENTS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private SdkV1Put() {}

  /** Sends one put with {@code name: token} in its metadata; S3A's policy repeats it. */
  @SuppressWarnings("try") // the span holds for this thread
  static void send(FileSystem fs, Path path, byte[] content, String name, String token)
      throws IOException {
    S3AFileSystem s3a = (S3AFileSystem) fs;
    String key = s3a.pathToKey(path);
    try (AuditSpan span = s3a.createSpan("op_create_file", key, null)) {
      AmazonS3 client =
          CLIENTS.computeIfAbsent(s3a, any -> any.getAmazonS3ClientForTesting("conditional put"));
      new Invoker(retryPolicy(fs), Invoker.LOG_EVENT)
          .retry(
              "conditional put",
              path.toString(),
              true,
              () -> {
                ObjectMetadata metadata = s3a.getRequestFactory().newObjectMetadata(content.length);
                metadata.addUserMetadata(name, token);
                PutObjectRequest request =
                    request(s3a.getRequestFactory(), key, metadata, content);
                request.putCustomRequestHeader("If-None-Match", "*");
                return client.putObject(request);
              });
    }
  }

  /** S3A's policy, without its retries of a conflict (409) or of a failed precondition (412). */
  private static RetryPolicy retryPolicy(FileSystem fs) {
    RetryPolicy policy = new S3ARetryPolicy(fs.getConf());
    return (failure, retries, failovers, idempotent) -> {
      Throwable cause = failure.getCause();
      int status =
          cause instanceof AmazonServiceException
              ? ((AmazonServiceException) cause).getStatusCode()
              : 0;
      return status == 409 || status == 412
          ? RetryPolicy.RetryAction.FAIL
          : policy.shouldRetry(failure, retries, failovers, idempotent);
    };
  }

  /** Calls {@code newPutObjectRequest}, which has options since Hadoop 3.3.5. */
  private static PutObjectRequest request(
      RequestFactory factory, String key, ObjectMetadata metadata, byte[] content) {
    InputStream stream = new ByteArrayInputStream(content);
    try {
      for (Method method : RequestFactory.class.getMethods()) {
        Class<?>[] types = method.getParameterTypes();
        if (method.getName().equals("newPutObjectRequest")
            && types[types.length - 1] == InputStream.class) {
          return (PutObjectRequest)
              (types.length == 3
                  ? method.invoke(factory, key, metadata, stream)
                  : method.invoke(factory, key, metadata, null, stream));
        }
      }
    } catch (IllegalAccessException | InvocationTargetException e) {
      throw new IllegalStateException("S3A made no request for " + key, e);
    }
    throw new IllegalStateException("S3A of this Hadoop makes no requests that put");
  }
}
