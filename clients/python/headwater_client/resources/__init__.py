"""The resources of the API, with a synchronous and an asynchronous class each."""
