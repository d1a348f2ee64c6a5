// The default arguments of KafkaTestUtils' constructor, where Scala's compiler looks for them.

package org.apache.spark.sql.kafka010;

import scala.collection.immutable.Map;

/** What Scala's compiler makes of a class with default arguments, besides the class. */
public final class KafkaTestUtils$ {
  public static final KafkaTestUtils$ MODULE$ = new KafkaTestUtils$();

  private KafkaTestUtils$() {}

  public Map<String, Object> $lessinit$greater$default$1() {
    return scala.collection.immutable.Map$.MODULE$.empty();
  }

  public boolean $lessinit$greater$default$2() {
    return false;
  }
}
