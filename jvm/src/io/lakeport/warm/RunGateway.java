package io.lakeport.warm;

import java.io.Closeable;
import java.io.IOException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.api.python.PythonAccumulatorV2;
import org.apache.spark.sql.SparkSession;

/**
 * The door of one run into a JVM that has one run after the other.
 *
 * <p>Each run has a Py4J server with a secret of its own, so that what its Python refers to is let
 * go with it, and nothing of it is left for the next one.
 */
public final class RunGateway {

  private static final String SERVING = "py4j.ClientServerConnection";

  private static volatile PythonAccumulatorV2 accumulator;

  private final SparkContext context;
  private final Configuration before;
  private final ThreadGroup threads = new ThreadGroup("run");
  private final Py4JServer server;

  /** Opens the door of the next run. */
  public RunGateway(SparkContext context) throws InterruptedException, ExecutionException {
    this.context = context;
    before = new Configuration(context.hadoopConfiguration());
    FutureTask<Py4JServer> first = new FutureTask<>(this::open);
    new Thread(threads, first).start();
    server = first.get();
  }

  /** Starts the server in a thread that all others of the run descend from. */
  private Py4JServer open() {
    Py4JServer opened = new Py4JServer(context.conf()); // begins to listen at once
    opened.start();
    return opened;
  }

  /** A session that nobody else has. */
  public static SparkSession newSession() {
    return SparkSession.builder().getOrCreate().newSession();
  }

  /** Takes note of the run's accumulator, whose connection to its Python nobody else would close. */
  public static void keep(PythonAccumulatorV2 told) {
    accumulator = told;
  }

  public int port() {
    return server.getListeningPort();
  }

  public String secret() {
    return server.secret();
  }

  /**
   * Ends the run here: its jobs, its connections, the calls under way, and how it reached stores.
   *
   * @param millis how long to wait for the calls
   * @return whether none is under way any more
   */
  public boolean close(long millis)
      throws InterruptedException, IOException, ReflectiveOperationException {
    context.cancelAllJobs();
    server.shutdown();
    hangUp();
    long end = System.nanoTime() + millis * 1_000_000;
    List<Thread> left = serving();
    left.forEach(Thread::interrupt);
    for (Thread thread : left) {
      thread.join(Math.max(1, (end - System.nanoTime()) / 1_000_000));
    }
    forget();
    return serving().isEmpty();
  }

  /** Forgets the run's sessions, stores, and the settings by which they were reached. */
  private void forget() throws IOException, ReflectiveOperationException {
    SparkSession.clearActiveSession();
    SparkSession.clearDefaultSession();
    Configuration settings = context.hadoopConfiguration();
    settings.clear();
    for (Map.Entry<String, String> each : before) {
      settings.set(each.getKey(), each.getValue());
    }
    try {
      Class.forName("org.apache.spark.sql.delta.DeltaLog").getMethod("clearCache").invoke(null);
    } catch (ClassNotFoundException none) {
      // a JVM without Delta's jars
    }
    FileSystem.closeAll();
  }

  /** Spark leaves this channel open, and one that is open outlives the object that holds it. */
  private static void hangUp() throws IOException, ReflectiveOperationException {
    if (accumulator != null) {
      Method socket = PythonAccumulatorV2.class.getDeclaredMethod("socket");
      socket.setAccessible(true);
      Closeable channel = (Closeable) socket.invoke(accumulator); // a Socket until Spark 4.0
      if (channel != null) {
        channel.close();
      }
      accumulator = null;
    }
  }

  /** The threads that serve the run; others in the group belong to pools, which have other users. */
  private List<Thread> serving() {
    Thread[] all = new Thread[threads.activeCount() * 2 + 16];
    int count = threads.enumerate(all);
    List<Thread> found = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      StackTraceElement[] stack = all[i].getStackTrace();
      for (int j = stack.length - 1; j >= 0 && j >= stack.length - 3; j--) {
        if (stack[j].getClassName().equals(SERVING)) {
          found.add(all[i]);
          break;
        }
      }
    }
    return found;
  }
}
