/** Lets values through while it is open. */
export class Gate {
  #closed: PromiseWithResolvers<void> | undefined;

  close() {
    this.#closed ??= Promise.withResolvers<void>();
  }

  open() {
    this.#closed?.resolve();
    this.#closed = undefined;
  }

  /** Yields the values; throws the reason of the signal when it is aborted. */
  async *pass(values: AsyncIterable<string>, signal: AbortSignal): AsyncGenerator<string, void> {
    for await (const value of values) {
      if (this.#closed) await this.#closed.promise;
      signal.throwIfAborted();
      yield value;
    }
  }
}
