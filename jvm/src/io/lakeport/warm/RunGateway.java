package io.lakeport.warm;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.apache.spark.SparkContext;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.api.python.PythonAccumulatorV2;
import org.apache.spark.sql.SparkSession;

/**
 * One run's own door into a JVM that several runs share.
 *
 * <p>Each run has a server with a secret of its own, so that what its Python refers to is let go
 * with it, and a session of its own. The threads that serve the run descend from the one that
 * starts the server, and inherit from it: the session, the pool that the scheduler shares cores out
 * by, and the tag by which all of the run's jobs can be cancelled.
 */
public final class RunGateway {

  private static final String SERVING = "py4j.ClientServerConnection";

  private static final Map<String, PythonAccumulatorV2> ACCUMULATORS = new ConcurrentHashMap<>();

  private final SparkContext context;
  private final String tag;
  private final ThreadGroup threads;
  private final Py4JServer server;

  /**
   * Opens a run's door.
   *
   * @param tag the run's name, which must not hold a comma
   * @param sql whether the run's threads are to find a session; the first one of a JVM takes half a
   *     second, and a load into plain files needs none
   */
  public RunGateway(SparkContext context, String tag, String pool, boolean sql)
      throws InterruptedException, ExecutionException {
    this.context = context;
    this.tag = tag;
    threads = new ThreadGroup(tag);
    FutureTask<Py4JServer> first = new FutureTask<>(() -> open(pool, sql));
    new Thread(threads, first).start();
    server = first.get();
  }

  /** Starts the server in the thread that all others of the run descend from. */
  private Py4JServer open(String pool, boolean sql) {
    if (sql) {
      SparkSession.setActiveSession(newSession());
    }
    context.setLocalProperty("spark.scheduler.pool", pool);
    context.addJobTag(tag);
    Py4JServer opened = new Py4JServer(context.conf()); // begins to listen at once
    opened.start();
    return opened;
  }

  /** A session that nobody else has. */
  public static SparkSession newSession() {
    return SparkSession.builder().getOrCreate().newSession();
  }

  /** Takes note of a run's accumulator, whose connection to its Python nobody else would close. */
  public static void keep(String tag, PythonAccumulatorV2 accumulator) {
    ACCUMULATORS.put(tag, accumulator);
  }

  public int port() {
    return server.getListeningPort();
  }

  public String secret() {
    return server.secret();
  }

  /**
   * Ends the run here: its jobs, its connections, and the calls under way.
   *
   * @param millis how long to wait for the calls
   * @return whether none is under way any more
   */
  public boolean close(long millis)
      throws InterruptedException, IOException, ReflectiveOperationException {
    context.cancelJobsWithTag(tag);
    server.shutdown();
    hangUp(ACCUMULATORS.remove(tag));
    long end = System.nanoTime() + millis * 1_000_000;
    List<Thread> left = serving();
    left.forEach(Thread::interrupt);
    for (Thread thread : left) {
      thread.join(Math.max(1, (end - System.nanoTime()) / 1_000_000));
    }
    return serving().isEmpty();
  }

  /** Spark leaves this channel open, and one that is open outlives the object that holds it. */
  private static void hangUp(PythonAccumulatorV2 accumulator)
      throws IOException, ReflectiveOperationException {
    if (accumulator != null) {
      Method socket = PythonAccumulatorV2.class.getDeclaredMethod("socket");
      socket.setAccessible(true);
      SocketChannel channel = (SocketChannel) socket.invoke(accumulator);
      if (channel != null) {
        channel.close();
      }
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
