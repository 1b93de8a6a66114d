"""Files for the deployment and operation of Headwater."""
